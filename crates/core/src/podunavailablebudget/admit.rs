//! A PodUnavailableBudget on its way into the cluster: [`validate`](super::validate). Nothing is defaulted.

use kruise_api::kind::Kind as _;
use kruise_api::podunavailablebudget::v1beta1::PodUnavailableBudget;
use kruise_api::read::{ReadError, from_slice};

use super::{Submitted, validate};
use crate::admission::{Admit, Env, Lookups, Needs, ObjectRef, Refusal, Version};
use crate::shared::tree::Object;

const OTHERS: ObjectRef = ObjectRef::AllOf(PodUnavailableBudget::RESOURCE);

impl Admit for Submitted {
    fn read(json: &[u8], _: Version) -> Result<Self, ReadError> {
        from_slice(json)
    }

    fn default(_: &mut Object, _: Option<&Object>, _: &Env, _: &Lookups) -> Result<(), Refusal> {
        Ok(())
    }

    fn needs_to_validate(&self, _: Option<&Self>, _: &Env, _: &Lookups) -> Needs {
        Needs {
            objects: [OTHERS].into(),
            ..Needs::default()
        }
    }

    fn validate(&self, env: &Env, found: &Lookups) -> Result<(), Refusal> {
        let fault = (env.version == Version::V1alpha1).then(|| validate::conversion_fault(self));
        if let Some(fault) = fault.flatten() {
            return Err(Refusal::new(400, fault));
        }
        validate::validate(self, &others(found)?).into_result()
    }

    fn validate_update(&self, old: &Self, env: &Env, found: &Lookups) -> Result<(), Refusal> {
        self.validate(env, found)?;
        validate::forbidden(self, old).map_or(Ok(()), |error| Err(error.into()))
    }
}

/// The budgets of the namespace. One that cannot be read is no reason to refuse another.
fn others(found: &Lookups) -> Result<Vec<Submitted>, Refusal> {
    match found.items(&OTHERS) {
        Ok(all) => Ok(all.filter_map(|one| serde_json::from_value(one.clone()).ok()).collect()),
        Err(reason) => Err(Refusal::new(
            400,
            format!("other PodUnavailableBudgets of the namespace could not be listed: {reason}"),
        )),
    }
}
