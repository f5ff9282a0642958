//! Giving back the memory of tables that were large for a moment, as when thousands of nodes come together.

use std::collections::HashMap;

/// Smaller tables are kept as they are.
const LARGE: usize = 1024;

/// Gives back the memory of a table that has become empty.
pub(crate) fn shrink_if_empty<K, V>(table: &mut HashMap<K, V>) {
    if table.is_empty() && table.capacity() > LARGE {
        *table = HashMap::new();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn given_a_table_then_only_a_large_one_that_is_empty_is_given_back() {
        for (size, rest, is_given_back) in [(10, 0, false), (5000, 1, false), (5000, 0, true)] {
            let mut table: HashMap<u32, u32> = (0..size).map(|number| (number, 0)).collect();
            table.retain(|number, _| *number < rest);
            let before = table.capacity();
            shrink_if_empty(&mut table);
            assert_eq!(table.capacity(), if is_given_back { 0 } else { before });
        }
    }
}
