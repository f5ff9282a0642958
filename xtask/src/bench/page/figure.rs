//! The plots of a score: the curves of all chapters that belong into one picture.

use super::axis::{Axis, Scale};
use super::text::{measured, number};
use crate::bench::score::{Plot, Score, Subject, median};

/// One plot that has something to show.
#[derive(Debug)]
pub(super) struct Figure {
    pub(super) plot: Plot,
    pub(super) lines: Vec<Line>,
}

/// One curve, by rising x.
#[derive(Debug)]
pub(super) struct Line {
    pub(super) subject: Subject,
    /// As the legend calls it.
    pub(super) name: String,
    /// Which of the lines of its subject it is.
    pub(super) turn: usize,
    pub(super) points: Vec<(f64, f64)>,
}

const PLOTS: [Plot; 3] = [Plot::Memory, Plot::Throughput, Plot::Latency];

/// All plots with at least one point.
pub(super) fn figures(score: &Score) -> Vec<Figure> {
    PLOTS
        .into_iter()
        .map(|plot| Figure {
            plot,
            lines: lines(score, plot),
        })
        .filter(|figure| !figure.lines.is_empty())
        .collect()
}

fn lines(score: &Score, plot: Plot) -> Vec<Line> {
    let mut found: Vec<(&str, &str, Line)> = Vec::new();
    for chapter in &score.chapters {
        for curve in chapter.curves.iter().filter(|curve| curve.plot == plot) {
            let placed = |(x, y): &&(f64, f64)| plot.x().place(*x).is_some() && plot.y().place(*y).is_some();
            let points = curve.points.iter().filter(placed).copied();
            let known = found.iter_mut().find(|(label, scenario, line)| {
                (*label, *scenario, line.subject) == (&curve.label, &chapter.scenario, curve.subject)
            });
            if let Some((_, _, line)) = known {
                line.points.extend(points);
                continue;
            }
            let line = Line {
                subject: curve.subject,
                name: curve.subject.name().to_owned(),
                turn: 0,
                points: points.collect(),
            };
            found.push((&curve.label, &chapter.scenario, line));
        }
    }
    found.retain(|(_, _, line)| !line.points.is_empty());
    for (_, _, line) in &mut found {
        line.points = medians(std::mem::take(&mut line.points));
    }
    // Curves of the same name come from different scenarios, which then tell them apart.
    let keys: Vec<(Subject, &str)> = found.iter().map(|(label, _, line)| (line.subject, *label)).collect();
    for (label, scenario, line) in &mut found {
        if !label.is_empty() {
            line.name.push_str(&format!(", {label}"));
        }
        let same = (line.subject, *label);
        if keys.iter().filter(|key| **key == same).count() > 1 {
            line.name.push_str(&format!(" ({scenario})"));
        }
    }
    let mut lines: Vec<Line> = found.into_iter().map(|(_, _, line)| line).collect();
    lines.sort_by_key(|line| line.subject);
    let mut before = None;
    for line in &mut lines {
        line.turn = match before {
            Some((subject, turn)) if subject == line.subject => turn + 1,
            _ => 0,
        };
        before = Some((line.subject, line.turn));
    }
    lines
}

/// Of several rounds at the same x the median, by rising x.
fn medians(mut points: Vec<(f64, f64)>) -> Vec<(f64, f64)> {
    points.sort_by(|one, other| one.0.total_cmp(&other.0));
    points
        .chunk_by(|one, other| one.0.total_cmp(&other.0).is_eq())
        .filter_map(|rounds| {
            let values: Vec<f64> = rounds.iter().map(|(_, y)| *y).collect();
            Some((rounds.first()?.0, median(&values)?))
        })
        .collect()
}

impl Plot {
    pub(super) fn title(self) -> &'static str {
        match self {
            Self::Memory => "Memory over Pods",
            Self::Throughput => "Throughput over concurrency",
            Self::Latency => "Latency distribution",
        }
    }

    pub(super) fn x_title(self) -> &'static str {
        match self {
            Self::Memory => "Pods in the cluster",
            Self::Throughput => "connections",
            Self::Latency => "share of requests answered within (%)",
        }
    }

    pub(super) fn y_title(self) -> &'static str {
        match self {
            Self::Memory => "resident memory (MB)",
            Self::Throughput => "answers per second",
            Self::Latency => "time of an answer (ms)",
        }
    }

    fn x(self) -> Scale {
        match self {
            Self::Memory => Scale::Linear,
            Self::Throughput => Scale::Logarithmic,
            Self::Latency => Scale::Nines,
        }
    }

    fn y(self) -> Scale {
        match self {
            Self::Memory | Self::Throughput => Scale::Linear,
            Self::Latency => Scale::Logarithmic,
        }
    }
}

impl Figure {
    pub(super) fn x_axis(&self) -> Axis {
        self.plot.x().axis(&self.all(|(x, _)| x), true)
    }

    pub(super) fn y_axis(&self) -> Axis {
        self.plot.y().axis(&self.all(|(_, y)| y), false)
    }

    fn all(&self, of: impl Fn((f64, f64)) -> f64) -> Vec<f64> {
        let points = self.lines.iter().flat_map(|line| &line.points);
        points.map(|point| of(*point)).collect()
    }

    /// For those who do not see the picture.
    pub(super) fn description(&self) -> String {
        let lines: Vec<String> = self
            .lines
            .iter()
            .filter_map(|line| {
                let ((from, first), (to, last)) = (line.points.first()?, line.points.last()?);
                let (from, first, to, last) = (number(*from), number(*first), number(*to), number(*last));
                Some(format!("{}: from {first} at {from} to {last} at {to}", line.name))
            })
            .collect();
        format!(
            "{} over {}. {}.",
            self.plot.y_title(),
            self.plot.x_title(),
            lines.join("; ")
        )
    }

    /// The points as a table: a row for each x, a column for each line.
    pub(super) fn table(&self) -> Vec<(String, Vec<String>)> {
        let mut all = self.all(|(x, _)| x);
        all.sort_by(f64::total_cmp);
        all.dedup();
        all.into_iter()
            .map(|x| {
                let at = |line: &Line| {
                    let point = line.points.iter().find(|point| point.0.total_cmp(&x).is_eq());
                    measured(point.map(|point| point.1))
                };
                (number(x), self.lines.iter().map(at).collect())
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::score::{Chapter, Curve};

    fn curve(plot: Plot, subject: Subject, label: &str, points: &[(f64, f64)]) -> Curve {
        Curve {
            plot,
            subject,
            label: label.to_owned(),
            points: points.to_vec(),
        }
    }

    #[test]
    fn curves_of_all_chapters_come_together_rounds_by_their_median_and_those_without_points_are_left_out() {
        let mut platform = Chapter::new("platform");
        platform.curves = vec![
            curve(Plot::Memory, Subject::Peer, "", &[(0.0, 60.0)]),
            curve(
                Plot::Memory,
                Subject::Ours,
                "cached",
                &[(5.0, 20.0), (0.0, 16.0), (5.0, 18.0)],
            ),
            curve(Plot::Memory, Subject::Ours, "cached", &[(5.0, 24.0)]),
            curve(Plot::Throughput, Subject::Ours, "", &[]),
            curve(Plot::Latency, Subject::Ours, "", &[(100.0, 3.0)]),
        ];
        let mut scale = Chapter::new("scale");
        scale.curves = vec![curve(Plot::Memory, Subject::Ours, "cached", &[(5.0, 21.0)])];
        let figures = figures(&Score {
            chapters: vec![platform, scale],
            ..Score::default()
        });
        let [memory] = &figures[..] else {
            panic!("one plot has points, {figures:?}")
        };
        let names: Vec<(&str, usize)> = memory
            .lines
            .iter()
            .map(|line| (line.name.as_str(), line.turn))
            .collect();
        assert_eq!(
            names,
            [("ours, cached (platform)", 0), ("ours, cached (scale)", 1), ("peer", 0)]
        );
        assert_eq!(
            memory.table(),
            [
                ("0".to_owned(), vec!["16".to_owned(), "–".to_owned(), "60".to_owned()]),
                ("5".to_owned(), vec!["20".to_owned(), "21".to_owned(), "–".to_owned()]),
            ]
        );
        assert!(
            memory
                .description()
                .contains("ours, cached (platform): from 16 at 0 to 20 at 5")
        );
    }
}
