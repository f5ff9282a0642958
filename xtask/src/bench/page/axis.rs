//! The axes of a plot: where a value has its place, and which ticks are labelled.
//!
//! Sizes begin at zero, so that lengths can be compared. Connections and times of answers, which differ by magnitudes, have a
//! logarithmic axis. Shares of requests are stretched towards 100 %: 90, 99 and 99.9 % are equally far apart.

use std::ops::Range;

use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, Ranged, ValueFormatter};

use super::text::short_number;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scale {
    Linear,
    Logarithmic,
    Nines,
}

/// An axis that has a place for each of the values it was made for.
#[derive(Debug)]
pub(super) struct Axis {
    scale: Scale,
    /// From the first to the last tick, as places.
    range: Range<f64>,
    ticks: Vec<f64>,
}

/// How much of its length an axis goes on beyond the outer ticks, so that no mark lies on the frame.
const AIR: f64 = 0.035;
const SHARES: [f64; 7] = [0.0, 50.0, 90.0, 99.0, 99.9, 99.99, 99.999];
/// More would run into each other on a phone.
const MOST_TICKS: usize = 8;

impl Scale {
    /// Where a value is on the axis, if the axis goes that far: nothing is at 100 % of requests or at the logarithm of zero.
    pub(super) fn place(self, value: f64) -> Option<f64> {
        let place = match self {
            Self::Linear => value,
            Self::Logarithmic => value.log10(),
            Self::Nines => -(1.0 - value / 100.0).log10(),
        };
        let within = match self {
            Self::Linear | Self::Logarithmic => true,
            Self::Nines => (0.0..=99.999).contains(&value),
        };
        (within && place.is_finite()).then_some(place)
    }

    /// An axis for these values; `exact` labels the values themselves if they are few.
    pub(super) fn axis(self, values: &[f64], exact: bool) -> Axis {
        let mut known: Vec<f64> = values
            .iter()
            .copied()
            .filter(|value| self.place(*value).is_some())
            .collect();
        known.sort_by(f64::total_cmp);
        known.dedup();
        let (least, most) = match (known.first(), known.last()) {
            (Some(least), Some(most)) => (*least, *most),
            // Something that every scale has a place for.
            _ => (1.0, 10.0),
        };
        let ticks = match self {
            Self::Linear => steps(least.min(0.0), most.max(0.0)),
            Self::Logarithmic if exact && (2..=MOST_TICKS).contains(&known.len()) => known,
            Self::Logarithmic => magnitudes(least, most),
            Self::Nines => shares(least, most),
        };
        let place = |tick: Option<&f64>| tick.and_then(|tick| self.place(*tick));
        let range = match (place(ticks.first()), place(ticks.last())) {
            (Some(first), Some(last)) if first < last => first..last,
            (Some(only), _) => only - 1.0..only + 1.0,
            _ => 0.0..1.0,
        };
        Axis {
            scale: self,
            range,
            ticks,
        }
    }
}

impl Axis {
    /// From 0 to 1 between the ends of the axis.
    fn position(&self, value: f64) -> f64 {
        let length = self.range.end - self.range.start;
        let place = self.scale.place(value).unwrap_or(self.range.start);
        // Lengths are compared from the very end.
        let before = if self.scale == Scale::Linear { 0.0 } else { AIR };
        ((place - self.range.start) / length + before) / (1.0 + before + AIR)
    }
}

impl Ranged for Axis {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, (from, to): (i32, i32)) -> i32 {
        from + (self.position(*value) * f64::from(to - from)).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        if hint.weight().allow_light_points() {
            Vec::new()
        } else {
            self.ticks.clone()
        }
    }

    fn range(&self) -> Range<f64> {
        let ends = (self.ticks.first(), self.ticks.last());
        ends.0.copied().unwrap_or(0.0)..ends.1.copied().unwrap_or(1.0)
    }
}

impl ValueFormatter<f64> for Axis {
    fn format(value: &f64) -> String {
        short_number(*value)
    }
}

/// Even steps of 1, 2 or 5 that take in both ends.
fn steps(least: f64, most: f64) -> Vec<f64> {
    let span = if most > least { most - least } else { 1.0 };
    let rough = span / 5.0;
    let magnitude = 10_f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0]
        .map(|digit| digit * magnitude)
        .into_iter()
        .find(|step| *step >= rough)
        .unwrap_or(10.0 * magnitude);
    let first = (least / step).floor();
    (0_u32..=8)
        .map(|count| (first + f64::from(count)) * step)
        .scan(false, |enough, tick| {
            (!std::mem::replace(enough, tick >= least + span)).then_some(tick)
        })
        .collect()
}

/// 1, 2 and 5 of each magnitude, or 1 alone when those are too many, such that both ends are taken in.
fn magnitudes(least: f64, most: f64) -> Vec<f64> {
    let decades = least.log10().floor() as i32..=most.log10().ceil() as i32;
    let of = |digits: &[f64]| -> Vec<f64> {
        let all: Vec<f64> = decades
            .clone()
            .flat_map(|decade| digits.iter().map(move |digit| digit * 10_f64.powi(decade)))
            .collect();
        let start = all
            .iter()
            .rposition(|tick| *tick <= least * (1.0 + 1e-9))
            .unwrap_or_default();
        let end = all.iter().position(|tick| *tick >= most * (1.0 - 1e-9));
        all[start..=end.unwrap_or(all.len() - 1).max(start)].to_vec()
    };
    let fine = of(&[1.0, 2.0, 5.0]);
    if fine.len() <= MOST_TICKS { fine } else { of(&[1.0]) }
}

fn shares(least: f64, most: f64) -> Vec<f64> {
    let start = SHARES.iter().rposition(|share| *share <= least).unwrap_or_default();
    let end = SHARES
        .iter()
        .position(|share| *share >= most)
        .unwrap_or(SHARES.len() - 1);
    SHARES[start..=end.max(start)].to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(axis: &Axis) -> Vec<String> {
        axis.ticks.iter().map(|tick| short_number(*tick)).collect()
    }

    #[test]
    fn ticks_are_round_and_take_in_every_value() {
        for (scale, values, exact, wanted) in [
            (
                Scale::Linear,
                &[16.0, 93.0][..],
                false,
                &["0", "20", "40", "60", "80", "100"][..],
            ),
            (
                Scale::Linear,
                &[0.0, 100_000.0],
                false,
                &["0", "20k", "40k", "60k", "80k", "100k"],
            ),
            (Scale::Linear, &[0.0], false, &["0", "0.2", "0.4", "0.6", "0.8", "1"]),
            (Scale::Logarithmic, &[1.0, 8.0, 64.0], true, &["1", "8", "64"]),
            (
                Scale::Logarithmic,
                &[0.03, 0.9],
                false,
                &["0.02", "0.05", "0.1", "0.2", "0.5", "1"],
            ),
            (
                Scale::Logarithmic,
                &[0.03, 900.0],
                false,
                &["0.01", "0.1", "1", "10", "100", "1k"],
            ),
            (
                Scale::Nines,
                &[50.0, 90.0, 99.9, 100.0],
                false,
                &["50", "90", "99", "99.9"],
            ),
        ] {
            let axis = scale.axis(values, exact);
            assert_eq!(labels(&axis), wanted, "{values:?}");
            for value in values.iter().filter(|value| scale.place(**value).is_some()) {
                let pixel = axis.map(value, (10, 110));
                assert!((10..110).contains(&pixel), "{value} of {values:?} is at {pixel}");
            }
        }
    }

    #[test]
    fn an_axis_has_a_length_whatever_it_is_made_for() {
        for scale in [Scale::Linear, Scale::Logarithmic, Scale::Nines] {
            for values in [
                &[][..],
                &[0.0],
                &[1.0],
                &[50.0, 50.0],
                &[-3.0],
                &[f64::NAN],
                &[1e300],
                &[1e-300, 1e300],
            ] {
                let axis = scale.axis(values, true);
                assert!(axis.range.start < axis.range.end, "{scale:?} {values:?} {axis:?}");
                for value in values {
                    axis.map(value, (0, 100));
                }
            }
        }
    }
}
