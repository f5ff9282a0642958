//! FNV, 32 bits: a hash that is fast and the same everywhere. Revisions use FNV-1, containers FNV-1a; do not mix them up.

const OFFSET: u32 = 0x811c_9dc5;
const PRIME: u32 = 0x0100_0193;

/// FNV-1: multiply, then mix in.
pub fn fnv1(bytes: &[u8]) -> u32 {
    bytes
        .iter()
        .fold(OFFSET, |hash, byte| hash.wrapping_mul(PRIME) ^ u32::from(*byte))
}

/// FNV-1a: mix in, then multiply.
pub fn fnv1a(bytes: &[u8]) -> u32 {
    bytes
        .iter()
        .fold(OFFSET, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(PRIME))
}

/// FNV-1a over the text that Go prints for a list of bytes, `([]uint8)[123 34]`: how the original hashes JSON of containers and claims.
pub fn fnv1a_of_printed(bytes: &[u8]) -> u32 {
    let numbers: Vec<String> = bytes.iter().map(u8::to_string).collect();
    fnv1a(format!("([]uint8)[{}]", numbers.join(" ")).as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_values_hold() {
        assert_eq!((fnv1(b""), fnv1a(b"")), (OFFSET, OFFSET));
        assert_eq!((fnv1(b"a"), fnv1a(b"a")), (0x050c_5d7e, 0xe40c_292c));
        assert_eq!((fnv1(b"foobar"), fnv1a(b"foobar")), (0x31f0_b262, 0xbf9c_f968));
    }
}
