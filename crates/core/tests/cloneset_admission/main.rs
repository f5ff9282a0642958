//! What happens to a CloneSet on its way in, compared with what the original did and checked for what must always hold.

mod defaults;
mod fixture;
mod properties;
mod rules;
mod verdicts;
