//! PNG files as browsers write them: eight bits for each of red, green, blue and perhaps opacity.

use std::collections::HashSet;
use std::io::Read;

use anyhow::{Context, Result, bail, ensure};

/// A decoded picture.
#[derive(Debug)]
pub(super) struct Picture {
    pub(super) width: u32,
    pub(super) height: u32,
    pixels: Vec<[u8; 3]>,
}

impl Picture {
    pub(super) fn decode(file: &[u8]) -> Result<Self> {
        let mut rest = file.strip_prefix(b"\x89PNG\r\n\x1a\n").context("not a PNG file")?;
        let (mut head, mut packed) = (Vec::new(), Vec::new());
        while let Some((length, after)) = rest.split_first_chunk::<4>() {
            let length = u32::from_be_bytes(*length) as usize;
            let (kind, after) = after.split_at_checked(4).context("cut off")?;
            let (content, after) = after.split_at_checked(length).context("cut off")?;
            match kind {
                b"IHDR" => head = content.to_vec(),
                b"IDAT" => packed.extend_from_slice(content),
                _ => {}
            }
            rest = after.get(4..).context("cut off")?;
        }
        ensure!(head.len() == 13, "no head");
        let number = |at: usize| u32::from_be_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let (size, head_end) = ((number(0), number(4)), &head[8..]);
        let (width, height) = (size.0 as usize, size.1 as usize);
        let depth = match *head_end {
            [8, 2, 0, 0, 0] => 3,
            [8, 6, 0, 0, 0] => 4,
            _ => bail!("an unusual kind of PNG: {head:?}"),
        };
        let mut rows = Vec::new();
        flate2::read::ZlibDecoder::new(&packed[..]).read_to_end(&mut rows)?;
        ensure!(rows.len() == height * (width * depth + 1), "rows are missing");
        let mut pixels = Vec::with_capacity(width * height);
        let mut above = vec![0; width * depth];
        for row in rows.chunks(width * depth + 1) {
            above = unfilter(row[0], &row[1..], &above, depth)?;
            pixels.extend(above.chunks(depth).map(|pixel| [pixel[0], pixel[1], pixel[2]]));
        }
        Ok(Self {
            width: size.0,
            height: size.1,
            pixels,
        })
    }

    /// Whether there are at least so many different colours.
    pub(super) fn is_colourful(&self, wanted: usize) -> bool {
        let mut found = HashSet::new();
        self.pixels.iter().any(|pixel| {
            found.insert(pixel);
            found.len() >= wanted
        })
    }

    /// How many pixels have this colour.
    pub(super) fn count(&self, colour: [u8; 3]) -> usize {
        self.pixels.iter().filter(|pixel| **pixel == colour).count()
    }
}

/// Each byte of a row is written as its difference from a guess by its neighbours.
fn unfilter(filter: u8, row: &[u8], above: &[u8], depth: usize) -> Result<Vec<u8>> {
    // Most of a page is empty, and tests are not optimised: what is the same as above is not reckoned byte by byte.
    if filter == 2 && row.iter().max() == Some(&0) {
        return Ok(above.to_vec());
    }
    let mut plain = row.to_vec();
    match filter {
        0 => {}
        1 => (depth..row.len()).for_each(|at| plain[at] = plain[at].wrapping_add(plain[at - depth])),
        2 => (0..row.len()).for_each(|at| plain[at] = plain[at].wrapping_add(above[at])),
        3 | 4 => {
            for at in 0..row.len() {
                let (left, corner) = if at < depth {
                    (0, 0)
                } else {
                    (plain[at - depth], above[at - depth])
                };
                let guess = if filter == 3 {
                    left.midpoint(above[at])
                } else {
                    nearest(left, above[at], corner)
                };
                plain[at] = plain[at].wrapping_add(guess);
            }
        }
        other => bail!("no such filter: {other}"),
    }
    Ok(plain)
}

/// The neighbour that is nearest to left + up − corner.
fn nearest(left: u8, up: u8, corner: u8) -> u8 {
    let (by_left, by_up) = (up.abs_diff(corner), left.abs_diff(corner));
    let by_corner = (i16::from(left) + i16::from(up) - 2 * i16::from(corner)).unsigned_abs();
    if by_left <= by_up && u16::from(by_left) <= by_corner {
        left
    } else if u16::from(by_up) <= by_corner {
        up
    } else {
        corner
    }
}
