//! Every decision kruise takes, as pure functions: plan, default, validate, convert.
