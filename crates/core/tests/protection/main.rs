//! Budgets, spreads and protection against deletion, as the original was recorded.

mod budgets;
mod deletions;
mod pods;
mod spreads;
