//! PNG files as browsers write them: eight bits for each of red, green, blue and perhaps opacity.

use std::collections::HashSet;
use std::io::Read;

use anyhow::{Context, Result, ensure};

/// A decoded picture.
#[derive(Debug)]
pub(super) struct Picture {
    pub(super) width: usize,
    pub(super) height: usize,
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
        let number = |at: usize| u32::from_be_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]) as usize;
        let (width, height) = (number(0), number(4));
        let depth = match head[8..] {
            [8, 2, 0, 0, 0] => 3,
            [8, 6, 0, 0, 0] => 4,
            _ => anyhow::bail!("an unusual kind of PNG: {head:?}"),
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
        Ok(Self { width, height, pixels })
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
    ensure!(filter <= 4, "no such filter: {filter}");
    let mut plain: Vec<u8> = Vec::with_capacity(row.len());
    for (place, byte) in row.iter().enumerate() {
        let before = |row: &[u8]| place.checked_sub(depth).map_or(0, |place| row[place]);
        let (left, up, corner) = (before(&plain), above[place], before(above));
        let guess = match filter {
            0 => 0,
            1 => left,
            2 => up,
            3 => left.midpoint(up),
            _ => nearest(left, up, corner),
        };
        plain.push(byte.wrapping_add(guess));
    }
    Ok(plain)
}

/// The neighbour that is nearest to left + up − corner.
fn nearest(left: u8, up: u8, corner: u8) -> u8 {
    let aim = i16::from(left) + i16::from(up) - i16::from(corner);
    [left, up, corner]
        .into_iter()
        .min_by_key(|neighbour| (aim - i16::from(*neighbour)).abs())
        .unwrap_or_default()
}
