//! What happens to NodeImages, pull jobs and requests to recreate containers on their way in, compared with what the original did.

mod defaults;
mod properties;
mod recreate;
mod verdicts;
