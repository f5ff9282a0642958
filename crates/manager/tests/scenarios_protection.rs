//! What users of PodUnavailableBudgets and of protection against deletion see, see `cluster/scenario.rs`.

#[allow(dead_code, reason = "other targets need more of it")]
mod cluster {
    mod chart;
    pub(super) mod scenario;
    mod world;
}
mod scenarios {
    pub(super) mod budgets {
        pub(crate) mod controllers;
        pub(crate) mod coverage;
        pub(crate) mod recorded;
    }
    pub(super) mod deletion_protection;
    pub(super) mod podunavailablebudget;
}

const GATES: &str = "--feature-gates=PodUnavailableBudgetUpdateGate=true,ResourcesDeletionProtection=true,\
                     DeletionProtectionForCRDCascadingGate=true";

fn main() -> std::process::ExitCode {
    let mut all = scenarios::podunavailablebudget::all();
    all.extend(scenarios::budgets::controllers::all());
    all.extend(scenarios::budgets::coverage::all());
    all.extend(scenarios::budgets::recorded::all());
    all.extend(scenarios::deletion_protection::all());
    cluster::scenario::run_gated("CloneSet", GATES, all)
}
