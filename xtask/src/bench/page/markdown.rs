//! The report as Markdown, for readers and tools that take text; plots are told as tables of their points.

use super::figure::{Figure, figures};
use super::text::{markdown as safe, measured, ratio};
use super::{
    HOW_TO_READ, TITLE, Verdict, explanation, facts, goal_text, others, sentence, short_commit, subjects, summary,
};
use crate::bench::score::{Chapter, Row, Score, Subject};

pub(in crate::bench) fn markdown(score: &Score) -> String {
    let mut text = format!("# {TITLE}\n\n{}\n", summary(score));
    let facts = facts(&score.machine);
    if !facts.is_empty() {
        text.push_str("\n## Machine and versions\n\n");
        for (name, fact) in facts {
            text.push_str(&format!("- {name}: {}\n", safe(&fact)));
        }
    }
    let subjects = subjects(score);
    if !subjects.is_empty() {
        text.push_str("\n## Who was measured\n\n");
        for subject in subjects {
            text.push_str(&format!("- {}: {}\n", subject.name(), explanation(subject)));
        }
        text.push_str(&format!("\n{HOW_TO_READ}\n"));
    }
    for each in &score.chapters {
        text.push_str(&chapter(each));
    }
    for each in &figures(score) {
        text.push_str(&figure(each));
    }
    text
}

fn chapter(chapter: &Chapter) -> String {
    let mut text = format!("\n## {}\n", safe(&chapter.scenario));
    if let Some(sentence) = sentence(&chapter.scenario) {
        text.push_str(&format!("\n{sentence}\n"));
    }
    let mut taken = Vec::new();
    if !chapter.commit.is_empty() {
        taken.push(format!("commit {}", safe(&short_commit(&chapter.commit))));
    }
    if !chapter.begun.is_empty() {
        taken.push(safe(&chapter.begun));
    }
    if !taken.is_empty() {
        text.push_str(&format!("\n{}\n", taken.join(" · ")));
    }
    if chapter.rows.is_empty() {
        return text;
    }
    let others = others(chapter);
    let mut heads = vec!["measure", "unit", "ours"];
    heads.extend(others.iter().map(|other| other.name()));
    heads.extend(["goal", "result"]);
    text.push('\n');
    text.push_str(&line(heads.iter().map(|head| (*head).to_owned())));
    let rules = heads
        .iter()
        .enumerate()
        .map(|(place, _)| if place < 2 { "---" } else { "---:" });
    text.push_str(&line(rules.map(str::to_owned)));
    for row in &chapter.rows {
        text.push_str(&measure(row, &others));
    }
    text
}

fn measure(row: &Row, others: &[Subject]) -> String {
    let mut cells = vec![safe(&row.measure), safe(&row.unit), measured(row.value(Subject::Ours))];
    for other in others {
        let value = measured(row.value(*other));
        cells.push(match row.ratio(*other) {
            Some(times) => format!("{value} ({})", ratio(times)),
            None => value,
        });
    }
    cells.push(row.goal.map(goal_text).unwrap_or_default());
    cells.push(match Verdict::of(row) {
        Some(Verdict::Missed) => format!("**{}**", Verdict::Missed.words()),
        Some(verdict) => verdict.words().to_owned(),
        None => String::new(),
    });
    line(cells)
}

fn figure(figure: &Figure) -> String {
    let plot = figure.plot;
    let mut text = format!(
        "\n## {}\n\n{} over {}:\n\n",
        plot.title(),
        plot.y_title(),
        plot.x_title()
    );
    let names = figure.lines.iter().map(|line| safe(&line.name));
    text.push_str(&line(std::iter::once(plot.x_title().to_owned()).chain(names)));
    text.push_str(&line(vec!["---:".to_owned(); figure.lines.len() + 1]));
    for (x, values) in figure.table() {
        text.push_str(&line(std::iter::once(x).chain(values)));
    }
    text
}

fn line(cells: impl IntoIterator<Item = String>) -> String {
    let cells: Vec<String> = cells.into_iter().collect();
    format!("| {} |\n", cells.join(" | "))
}
