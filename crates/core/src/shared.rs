//! What more than one kind needs. Kind modules never import each other; they meet here.

pub mod cloneset_shape;
pub mod convert;
pub mod quantity;
pub mod tree;
pub mod validate;
