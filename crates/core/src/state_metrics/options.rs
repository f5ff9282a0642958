//! What shapes a page: which kinds and families are on it, and which labels and annotations of objects.
//!
//! - `clonesets=[team,app.kubernetes.io/name],statefulsets=[*]` allows keys by kind. `*` allows all, and only as the first entry.
//! - Regular expressions are matched against the whole name of a family and may match any part of it.
//! - What does not make sense is an error that says what would: a board with silent gaps is worse than a program that does not start.

use std::collections::BTreeMap;

use regex::RegexSet;

use super::catalogue;

/// How a page is shaped.
#[derive(Clone, Debug, Default)]
pub struct Options {
    resources: Option<Vec<String>>,
    labels: BTreeMap<String, AllowedKeys>,
    annotations: BTreeMap<String, AllowedKeys>,
    families: FamilyFilter,
}

/// Why options make no sense.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OptionsError {
    /// A kind that there is not.
    #[error("{plural:?} is no resource with state metrics; these are: {}", known().join(", "))]
    Resource {
        /// The name that was given.
        plural: String,
    },
    /// A list of keys that cannot be read.
    #[error("{text:?} is not of the form resource=[key,key],resource=[*]")]
    Keys {
        /// What was given.
        text: String,
    },
    /// A regular expression that cannot be read.
    #[error("{0}")]
    Expression(String),
    /// Both lists of families were given.
    #[error("an allow list and a deny list of families cannot be used together")]
    BothLists,
}

/// Which keys of labels or annotations are shown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum AllowedKeys {
    #[default]
    None,
    These(Vec<String>),
    All,
}

impl AllowedKeys {
    pub(super) fn contains(&self, key: &str) -> bool {
        match self {
            Self::None => false,
            Self::These(keys) => keys.iter().any(|allowed| allowed == key),
            Self::All => true,
        }
    }
}

#[derive(Clone, Debug, Default)]
enum FamilyFilter {
    #[default]
    Everything,
    Only(RegexSet),
    Not(RegexSet),
}

impl Options {
    /// Shows these resources only, given as a list of plurals; all when it is empty.
    pub fn resources(self, list: &str) -> Result<Self, OptionsError> {
        let plurals: Vec<_> = entries(list).map(str::to_owned).collect();
        for plural in &plurals {
            check_resource(plural)?;
        }
        Ok(Self {
            resources: (!plurals.is_empty()).then_some(plurals),
            ..self
        })
    }

    /// Shows labels of objects.
    pub fn allow_labels(self, text: &str) -> Result<Self, OptionsError> {
        Ok(Self {
            labels: allowed_keys(text)?,
            ..self
        })
    }

    /// Shows annotations of objects.
    pub fn allow_annotations(self, text: &str) -> Result<Self, OptionsError> {
        Ok(Self {
            annotations: allowed_keys(text)?,
            ..self
        })
    }

    /// Shows only families that match one of the first list, or those that match none of the second.
    pub fn families(self, allow: &str, deny: &str) -> Result<Self, OptionsError> {
        let set =
            |list: &str| RegexSet::new(entries(list)).map_err(|error| OptionsError::Expression(error.to_string()));
        let families = match (entries(allow).next(), entries(deny).next()) {
            (Some(_), Some(_)) => return Err(OptionsError::BothLists),
            (Some(_), None) => FamilyFilter::Only(set(allow)?),
            (None, Some(_)) => FamilyFilter::Not(set(deny)?),
            (None, None) => FamilyFilter::Everything,
        };
        Ok(Self { families, ..self })
    }

    /// Whether a kind is shown.
    pub fn shows_resource(&self, plural: &str) -> bool {
        let listed = |plurals: &Vec<String>| plurals.iter().any(|listed| listed == plural);
        self.resources.as_ref().is_none_or(listed)
    }

    /// Whether a family is shown.
    pub(super) fn shows_family(&self, name: &str) -> bool {
        match &self.families {
            FamilyFilter::Everything => true,
            FamilyFilter::Only(expressions) => expressions.is_match(name),
            FamilyFilter::Not(expressions) => !expressions.is_match(name),
        }
    }

    pub(super) fn labels(&self, plural: &str) -> &AllowedKeys {
        self.labels.get(plural).unwrap_or(&AllowedKeys::None)
    }

    pub(super) fn annotations(&self, plural: &str) -> &AllowedKeys {
        self.annotations.get(plural).unwrap_or(&AllowedKeys::None)
    }
}

fn known() -> Vec<&'static str> {
    catalogue().iter().map(|kind| kind.plural).collect()
}

fn check_resource(plural: &str) -> Result<(), OptionsError> {
    if known().contains(&plural) {
        return Ok(());
    }
    Err(OptionsError::Resource {
        plural: plural.to_owned(),
    })
}

fn entries(list: &str) -> impl Iterator<Item = &str> {
    list.split(',').map(str::trim).filter(|entry| !entry.is_empty())
}

fn allowed_keys(text: &str) -> Result<BTreeMap<String, AllowedKeys>, OptionsError> {
    let wrong = || OptionsError::Keys { text: text.to_owned() };
    let mut allowed = BTreeMap::new();
    let mut rest = text.trim();
    while !rest.is_empty() {
        let (plural, behind) = rest.split_once("=[").ok_or_else(wrong)?;
        let (keys, behind) = behind.split_once(']').ok_or_else(wrong)?;
        let plural = plural.trim();
        check_resource(plural)?;
        let keys: Vec<_> = entries(keys).map(str::to_owned).collect();
        let keys = match keys.first().map(String::as_str) {
            None => AllowedKeys::None,
            Some("*") => AllowedKeys::All,
            Some(_) => AllowedKeys::These(keys),
        };
        allowed.insert(plural.to_owned(), keys);
        rest = match behind.trim_start().strip_prefix(',') {
            Some(more) => more.trim_start(),
            None if behind.trim().is_empty() => "",
            None => return Err(wrong()),
        };
    }
    Ok(allowed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn given_lists_of_keys_then_they_are_read_by_resource() {
        let options = Options::default()
            .allow_labels(" clonesets=[a, app.kubernetes.io/name],statefulsets=[*] ,daemonsets=[a,*],sidecarsets=[]")
            .unwrap();
        let clonesets = options.labels("clonesets");
        assert!(clonesets.contains("a") && clonesets.contains("app.kubernetes.io/name") && !clonesets.contains("b"));
        assert!(options.labels("statefulsets").contains("anything"));
        assert!(
            !options.labels("daemonsets").contains("anything"),
            "* counts as the first entry only"
        );
        assert_eq!(options.labels("sidecarsets"), &AllowedKeys::None);
        assert_eq!(options.annotations("clonesets"), &AllowedKeys::None);
    }

    #[test]
    fn given_what_makes_no_sense_then_the_message_says_what_would() {
        let keys = |text: &str| Options::default().allow_labels(text).unwrap_err().to_string();
        for text in [
            "clonesets",
            "clonesets=a",
            "clonesets=[a",
            "clonesets=[a] statefulsets=[b]",
            "=[a]x",
        ] {
            let message = keys(text);
            assert!(
                message.contains("resource=[key,key]") || message.contains("no resource"),
                "{message}"
            );
        }
        assert!(keys("pods=[a]").contains("clonesets, "), "{}", keys("pods=[a]"));
        let resources = Options::default().resources("clonesets,pods").unwrap_err();
        assert_eq!(resources, OptionsError::Resource { plural: "pods".into() });
        let expression = Options::default().families("(", "").unwrap_err();
        assert!(matches!(expression, OptionsError::Expression(_)), "{expression}");
    }

    #[test]
    fn given_both_lists_of_families_then_they_are_refused() {
        assert_eq!(
            Options::default().families("a", "b").unwrap_err(),
            OptionsError::BothLists
        );
    }

    #[test]
    fn given_a_list_of_families_then_a_plain_name_matches_longer_names_as_well() {
        let only = Options::default()
            .families("kruise_cloneset_status_replicas", "")
            .unwrap();
        assert!(only.shows_family("kruise_cloneset_status_replicas_ready"));
        assert!(!only.shows_family("kruise_cloneset_created"));
        let without = Options::default()
            .families("", "_annotations$,^kruise_sidecarset")
            .unwrap();
        assert!(
            !without.shows_family("kruise_cloneset_annotations") && !without.shows_family("kruise_sidecarset_created")
        );
        assert!(without.shows_family("kruise_cloneset_created"));
    }
}
