//! Conversion between API versions, compared with what the original did and checked for what must always hold.

mod differences;
mod fixture;
mod normal;
mod protocol;
mod recordings;
mod scenarios;
