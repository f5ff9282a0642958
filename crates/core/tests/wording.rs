//! Texts of refusals beside recorded ones.

/// Whether our text is the recorded one. A value that the original prints as a structure of its language is recorded as `…`, and may be any.
pub(crate) fn is_same(recorded: &str, ours: &str) -> bool {
    match recorded.split_once('…') {
        None => recorded == ours,
        Some((before, after)) => ours.strip_prefix(before).is_some_and(|rest| rest.ends_with(after)),
    }
}
