//! Conversion between API versions, compared with what the original did and checked for what must always hold.

mod differences;
mod expressible;
mod fixture;
mod generate;
mod normal;
mod properties;
mod protocol;
mod recordings;
mod scenarios;
