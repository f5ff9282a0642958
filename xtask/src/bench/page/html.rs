//! The page for browsers.

use anyhow::Result;

use super::figure::{Figure, figures};
use super::text::{NOTHING, html as safe, measured, ratio};
use super::{
    HOW_TO_READ, TITLE, Tally, Verdict, chart, explanation, facts, goal_text, others, sentence, short_commit, subjects,
    summary,
};
use crate::bench::score::{Chapter, Row, Score, Subject};

const STYLE: &str = include_str!("style.css");

pub(in crate::bench) fn html(score: &Score) -> Result<String> {
    let mut body = header(score);
    body.push_str(&about(score));
    let figures = figures(score);
    if !figures.is_empty() {
        body.push_str("<section aria-label=\"Plots\" class=\"figures\">\n");
        for (place, each) in figures.iter().enumerate() {
            body.push_str(&figure(each, place)?);
        }
        body.push_str("</section>\n");
    }
    for (place, each) in score.chapters.iter().enumerate() {
        body.push_str(&chapter(each, place));
    }
    Ok(format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n\
         <title>{TITLE}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n{body}</body>\n</html>\n"
    ))
}

fn header(score: &Score) -> String {
    let tally = Tally::of(&score.chapters);
    let mut text = format!(
        "<header>\n<h1>{TITLE}</h1>\n<p class=\"summary\">{}</p>\n",
        summary(score)
    );
    if tally != Tally::default() {
        text.push_str("<ul class=\"tallies\" aria-hidden=\"true\">\n");
        for (count, verdict) in [
            (tally.met, Verdict::Met),
            (tally.missed, Verdict::Missed),
            (tally.unmeasured, Verdict::Unmeasured),
        ] {
            if count > 0 {
                let class = class(verdict);
                text.push_str(&format!(
                    "<li class=\"{class}\"><b>{count}</b>{}</li>\n",
                    verdict.words()
                ));
            }
        }
        text.push_str("</ul>\n");
    }
    text.push_str("</header>\n");
    text.push_str(&misses(score));
    if score.chapters.len() > 1 {
        text.push_str("<nav class=\"contents\" aria-label=\"Scenarios\">\n");
        for (place, chapter) in score.chapters.iter().enumerate() {
            text.push_str(&format!(
                "<a href=\"#chapter-{place}\">{}</a>\n",
                safe(&chapter.scenario)
            ));
        }
        text.push_str("</nav>\n");
    }
    text
}

/// What should be looked at first.
fn misses(score: &Score) -> String {
    let mut list = String::new();
    for (place, chapter) in score.chapters.iter().enumerate() {
        for row in &chapter.rows {
            let (Some(goal), Some(Verdict::Missed)) = (row.goal, Verdict::of(row)) else {
                continue;
            };
            list.push_str(&format!(
                "<li><a href=\"#chapter-{place}\">{}</a>: {}: <b>{}</b>, goal {}</li>\n",
                safe(&chapter.scenario),
                safe(&row.measure),
                format!("{} {}", measured(row.value(Subject::Ours)), safe(&row.unit)).trim_end(),
                goal_text(goal),
            ));
        }
    }
    if list.is_empty() {
        return list;
    }
    format!("<section class=\"card\">\n<h2>Missed</h2>\n<ul class=\"misses\">\n{list}</ul>\n</section>\n")
}

fn about(score: &Score) -> String {
    let mut text = String::new();
    let facts = facts(&score.machine);
    if !facts.is_empty() {
        text.push_str("<section class=\"card\">\n<h2>Machine and versions</h2>\n<dl class=\"facts\">\n");
        for (name, fact) in facts {
            text.push_str(&format!("<div><dt>{name}</dt><dd>{}</dd></div>\n", safe(&fact)));
        }
        text.push_str("</dl>\n</section>\n");
    }
    let subjects = subjects(score);
    if !subjects.is_empty() {
        text.push_str("<section class=\"card\">\n<h2>Who was measured</h2>\n<dl class=\"subjects\">\n");
        for subject in subjects {
            let (name, about) = (subject.name(), explanation(subject));
            text.push_str(&format!("<div><dt>{name}</dt><dd>{about}</dd></div>\n"));
        }
        text.push_str(&format!(
            "</dl>\n<p class=\"muted small\">{HOW_TO_READ}</p>\n</section>\n"
        ));
    }
    text
}

fn figure(figure: &Figure, place: usize) -> Result<String> {
    let id = format!("plot-{place}");
    let mut text = format!(
        "<figure>\n<h3>{}</h3>\n{}<ul class=\"legend\">\n",
        figure.plot.title(),
        chart::svg(figure, &id)?
    );
    for line in &figure.lines {
        text.push_str(&format!("<li>{}{}</li>\n", chart::swatch(line)?, safe(&line.name)));
    }
    text.push_str("</ul>\n<details>\n<summary>The points</summary>\n<div class=\"scroll\" tabindex=\"0\">\n<table>\n");
    text.push_str(&format!("<thead><tr><th scope=\"col\">{}</th>", figure.plot.x_title()));
    for line in &figure.lines {
        text.push_str(&format!("<th scope=\"col\">{}</th>", safe(&line.name)));
    }
    text.push_str("</tr></thead>\n<tbody>\n");
    for (x, values) in figure.table() {
        text.push_str(&format!("<tr><th scope=\"row\">{x}</th>"));
        for value in values {
            text.push_str(&format!("<td>{value}</td>"));
        }
        text.push_str("</tr>\n");
    }
    text.push_str("</tbody>\n</table>\n</div>\n</details>\n</figure>\n");
    Ok(text)
}

fn chapter(chapter: &Chapter, place: usize) -> String {
    let mut text = format!(
        "<section class=\"card\" id=\"chapter-{place}\">\n<h2>{}</h2>\n",
        safe(&chapter.scenario)
    );
    if let Some(sentence) = sentence(&chapter.scenario) {
        text.push_str(&format!("<p>{sentence}</p>\n"));
    }
    let mut taken = Vec::new();
    if !chapter.commit.is_empty() {
        let (commit, short) = (safe(&chapter.commit), safe(&short_commit(&chapter.commit)));
        taken.push(format!("commit <code title=\"{commit}\">{short}</code>"));
    }
    if !chapter.begun.is_empty() {
        taken.push(safe(&chapter.begun));
    }
    if !taken.is_empty() {
        text.push_str(&format!("<p class=\"muted small\">{}</p>\n", taken.join(" · ")));
    }
    if !chapter.rows.is_empty() {
        text.push_str(&table(chapter));
    }
    text.push_str("</section>\n");
    text
}

/// On phones each row becomes a block, for which browsers have to be told that it still is a table.
fn table(chapter: &Chapter) -> String {
    let others = others(chapter);
    let goals = chapter.rows.iter().any(|row| row.goal.is_some());
    let head = |class: &'static str, name: &str| (class, name.to_owned());
    let mut heads = vec![head("text", "measure"), head("text", "unit"), head("", "ours")];
    let times = "<span class=\"times\">× ours</span>";
    heads.extend(others.iter().map(|other| ("", format!("{} {times}", other.name()))));
    if goals {
        heads.extend([head("", "goal"), head("", "result")]);
    }
    let class = if others.is_empty() {
        "measures"
    } else {
        "measures compared"
    };
    let mut text = format!("<table class=\"{class}\" role=\"table\">\n<thead role=\"rowgroup\"><tr role=\"row\">");
    for (class, head) in heads {
        text.push_str(&format!(
            "<th role=\"columnheader\" scope=\"col\" class=\"{class}\">{head}</th>"
        ));
    }
    text.push_str("</tr></thead>\n<tbody role=\"rowgroup\">\n");
    for row in &chapter.rows {
        text.push_str("<tr role=\"row\">");
        text.push_str(&format!(
            "<th role=\"rowheader\" scope=\"row\">{}</th>",
            safe(&row.measure)
        ));
        text.push_str(&cell("text bare-unit", "unit", &safe(&row.unit)));
        text.push_str(&cell(
            "ours",
            "ours",
            &with_unit(&measured(row.value(Subject::Ours)), row),
        ));
        for other in &others {
            let times = row.ratio(*other).map(ratio).unwrap_or_default();
            let value = with_unit(&measured(row.value(*other)), row);
            let content = format!("<span>{value}</span> <span class=\"times\">{times}</span>");
            text.push_str(&cell("", other.name(), &content));
        }
        if goals {
            text.push_str(&goal(row));
        }
        text.push_str("</tr>\n");
    }
    text.push_str("</tbody>\n</table>\n");
    text
}

fn goal(row: &Row) -> String {
    let (Some(goal), Some(verdict)) = (row.goal, Verdict::of(row)) else {
        return cell("none", "goal", "") + &cell("none", "result", "");
    };
    let badge = format!("<span class=\"badge {}\">{}</span>", class(verdict), verdict.words());
    cell("goal", "goal", &with_unit(&goal_text(goal), row)) + &cell("verdict", "result", &badge)
}

fn cell(class: &str, head: &str, content: &str) -> String {
    format!("<td role=\"cell\" class=\"{class}\" data-head=\"{head}\">{content}</td>")
}

/// The unit is shown where there is no column for it.
fn with_unit(value: &str, row: &Row) -> String {
    if value == NOTHING || row.unit.is_empty() {
        return format!("<span>{value}</span>");
    }
    format!("<span>{value} <span class=\"unit\">{}</span></span>", safe(&row.unit))
}

fn class(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Met => "met",
        Verdict::Missed => "missed",
        Verdict::Unmeasured => "unmeasured",
    }
}
