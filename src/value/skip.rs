//! Finds where a JSON value ends, without reading it: half of what an API server sends is `managedFields`, which nobody
//! wants, and the whole pod is passed over once to find the end of the envelope around it.
//!
//! The one idea: of 64 bytes at once it is told which are quotes and brackets, as one number each with a bit for each byte.
//! A running exclusive or over the quotes' bits tells which bytes stand in strings, and counting the bits of the others
//! tells how deep the block leaves off. Only a block in which the value may end is looked at bracket by bracket. (So do
//! Langdale and Lemire, "Parsing Gigabytes of JSON per Second", 2019.)

use wide::u8x64;

const BLOCK: usize = 64;

/// Where the object or list ends that opens at `at`, behind its last bracket; nothing where it doesn't. Whether what stands
/// between is right isn't judged, nor whether brackets match in kind.
pub(super) fn value_end(bytes: &[u8], mut at: usize) -> Option<usize> {
    let mut strings = Strings::default();
    let mut depth = 0u32;
    loop {
        let rest = bytes.get(at..).filter(|rest| !rest.is_empty())?;
        let block = rest.first_chunk().copied().unwrap_or_else(|| {
            let mut short = [b' '; BLOCK];
            short.iter_mut().zip(rest).for_each(|(to, from)| *to = *from);
            short
        });
        let block = Block(u8x64::from(block));
        let outside = !strings.inside(&block);
        let (opens, closes) = (block.any_of(b'{', b'[') & outside, block.any_of(b'}', b']') & outside);
        if depth > closes.count_ones() {
            depth = depth + opens.count_ones() - closes.count_ones();
        } else {
            let mut brackets = opens | closes;
            while brackets != 0 {
                let lowest = brackets & brackets.wrapping_neg();
                if opens & lowest != 0 {
                    depth += 1;
                } else {
                    depth = depth.checked_sub(1)?;
                }
                if depth == 0 {
                    return Some(at + lowest.trailing_zeros() as usize + 1);
                }
                brackets ^= lowest;
            }
        }
        at += BLOCK;
    }
}

struct Block(u8x64);

impl Block {
    /// Which bytes are this one.
    fn of(&self, byte: u8) -> u64 {
        self.0.simd_eq(u8x64::splat(byte)).to_bitmask()
    }

    fn any_of(&self, a: u8, b: u8) -> u64 {
        (self.0.simd_eq(u8x64::splat(a)) | self.0.simd_eq(u8x64::splat(b))).to_bitmask()
    }
}

/// What one block leaves behind for the next.
#[derive(Default)]
struct Strings {
    /// All ones within a string.
    open: u64,
    /// The block's first byte follows on a backslash that counts.
    escaped: bool,
}

impl Strings {
    /// Which bytes stand in a string, its first quote with it.
    fn inside(&mut self, block: &Block) -> u64 {
        let mut backslashes = block.of(b'\\');
        let mut quotes = block.of(b'"');
        if backslashes != 0 || self.escaped {
            let mut escaped = u64::from(self.escaped);
            self.escaped = false;
            backslashes &= !escaped;
            while backslashes != 0 {
                let at = backslashes.trailing_zeros();
                // It takes the next byte's meaning, be that a quote or another backslash.
                let next = 1u64.checked_shl(at + 1).unwrap_or(0);
                self.escaped = next == 0;
                escaped |= next;
                backslashes &= !(next | 1 << at);
            }
            quotes &= !escaped;
        }
        let inside = running_xor(quotes) ^ self.open;
        self.open = if inside >> (BLOCK - 1) == 1 { u64::MAX } else { 0 };
        inside
    }
}

/// In each bit, whether an odd number of the bits up to it is set.
fn running_xor(bits: u64) -> u64 {
    [1, 2, 4, 8, 16, 32].into_iter().fold(bits, |bits, by| bits ^ (bits << by))
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*, sample::select};

    use super::*;

    #[test]
    fn values_end_where_they_end() {
        for value in ["{}", "[]", r#"{"a":["}",{"b":"\\\""}],"c":1}"#, r#"["\\","]\"]"]"#, "[[[[]],{}]]"] {
            for before in 0..70 {
                let text = format!("{}{value},]}}\"", "x".repeat(before));
                assert_eq!(value_end(text.as_bytes(), before), Some(before + value.len()), "{text}");
            }
        }
        // A backslash that stands in no string means nothing.
        assert_eq!(value_end(br"[\}", 0), Some(3));
        for cut in ["", "[", "{\"a\":", "[\"a]", "[\"a\\\"]", "]", "}]"] {
            assert_eq!(value_end(cut.as_bytes(), 0), None, "{cut}");
        }
    }

    #[test]
    fn backslashes_count_across_blocks() {
        for backslashes in 0..140 {
            let text = format!("[\"{}\"]\"]", "\\".repeat(backslashes));
            let end = if backslashes % 2 == 0 { text.len() - 2 } else { text.len() };
            assert_eq!(value_end(text.as_bytes(), 0), Some(end), "{text}");
        }
    }

    proptest! {
        /// The same as byte by byte.
        #[test]
        fn blocks_change_nothing(parts in vec(select(PARTS), 0..80)) {
            let text = format!("[{}", parts.concat());
            let (mut depth, mut in_string, mut escaped, mut end) = (0, false, false, None);
            for (at, byte) in text.bytes().enumerate() {
                match byte {
                    b'"' if !escaped => in_string = !in_string,
                    b'{' | b'[' if !in_string => depth += 1,
                    b'}' | b']' if !in_string => depth -= 1,
                    _ => {}
                }
                escaped = byte == b'\\' && !escaped;
                if depth == 0 {
                    end = Some(at + 1);
                    break;
                }
            }
            prop_assert_eq!(value_end(text.as_bytes(), 0), end, "{}", text);
        }
    }

    const PARTS: &[&str] =
        &["{", "}", "[", "]", "\"", "\\", "\\\"", "\\\\", "abcdefghijklmnop", ",", "é", "\"a\":", "{\"b\":1}", "[]"];
}
