//! A small score is written as a report and looked at on a phone and on a desk, in the light and in the dark. The pictures are kept
//! in the build's temporary folder for people to look at.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use kruise_testkit::browser::{Browser, Driver, Screen};
use serde::Deserialize;

use super::picture::Picture;

/// All plots, every subject, goals that are met, missed and not measured, long names, and text that looks like HTML.
const SCORE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/browser/score.json");
const MEASURE: &str = include_str!("look.js");

/// What the script in the page returns.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Shown {
    width: f64,
    /// With all points shown.
    height: f64,
    /// As the reader first sees it.
    closed: f64,
    window: f64,
    ratio: f64,
    plots: Vec<PlotBox>,
    smallest: f64,
    outside: Vec<String>,
    clipped: Vec<String>,
    touching: Vec<String>,
    faint: Vec<String>,
    faint_lines: Vec<String>,
    ours: [u8; 3],
    missed: String,
    words: String,
}

#[derive(Debug, Deserialize)]
struct PlotBox {
    width: f64,
    height: f64,
    visible: bool,
}

fn page(folder: &Path) -> PathBuf {
    let output = Command::new(env!("CARGO_BIN_EXE_xtask"))
        .args(["bench", "report", "--from", SCORE, "--out"])
        .arg(folder)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    folder.join("report.html")
}

#[test]
fn given_a_score_then_its_page_is_readable_on_a_phone_and_on_a_desk_in_the_light_and_in_the_dark() {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let page = page(&folder);
    let driver = Driver::start().unwrap();
    for (screen, name, width) in [(Screen::Phone, "phone", 390.0), (Screen::Desk, "desk", 1280.0)] {
        let browser = driver.open(&page, screen).unwrap();
        for look in ["light", "dark"] {
            let name = format!("report-{name}-{look}");
            browser.prefer(look).unwrap();
            let shown: Shown = serde_json::from_value(browser.run(MEASURE).unwrap()).unwrap();
            // A phone zooms out when something sticks out, and then nothing seems to.
            assert!(
                (shown.window - width).abs() < 1.0,
                "{name}: something is {} wide",
                shown.window
            );
            readable(&name, &shown);
            pictured(&name, &browser, &shown, &folder);
        }
        let complaints = browser.complaints().unwrap();
        assert!(complaints.is_empty(), "{name}: {complaints:?}");
    }
}

fn readable(name: &str, shown: &Shown) {
    assert!(
        shown.width <= shown.window,
        "{name}: scrolls sideways to {}",
        shown.width
    );
    assert!(shown.height > shown.closed, "{name}: the points of plots unfold");
    assert_eq!(shown.plots.len(), 3, "{name}");
    for plot in &shown.plots {
        assert!(
            plot.visible && plot.width >= 300.0 && plot.height >= 200.0,
            "{name}: {plot:?}"
        );
    }
    assert!(shown.smallest >= 12.0, "{name}: letters of {} px", shown.smallest);
    for (what, found) in [
        ("texts beside the screen", &shown.outside),
        ("texts beside their plot", &shown.clipped),
        ("texts over each other", &shown.touching),
        ("texts hard to see", &shown.faint),
        ("curves hard to see", &shown.faint_lines),
    ] {
        assert!(found.is_empty(), "{name}: {what}: {found:?}");
    }
    assert_eq!(shown.missed, "missed", "{name}");
    for words in [
        "7 of 9 goals met, 1 missed, 1 not measured.",
        "requests per Pod, if a <template> has \"quotes\" & such",
        "Example <Processor> & Sons",
        "unheard-of <scenario>",
        "18,234",
        "≤ 2",
        "not measured",
    ] {
        assert!(
            shown.words.contains(words),
            "{name}: {words} is not in\n{}",
            shown.words
        );
    }
}

fn pictured(name: &str, browser: &Browser<'_>, shown: &Shown, folder: &Path) {
    let file = browser.picture(shown.width, shown.closed).unwrap();
    fs::write(folder.join(format!("{name}.png")), &file).unwrap();
    let picture = Picture::decode(&file).unwrap();
    let near = |pixels: u32, wanted: f64| (f64::from(pixels) - wanted * shown.ratio).abs() <= 2.0;
    assert!(
        near(picture.width, shown.width) && near(picture.height, shown.closed),
        "{name}: {} × {} pixels of {shown:?}",
        picture.width,
        picture.height
    );
    assert!(picture.is_colourful(64), "{name}: not a page but a few colours");
    let drawn = picture.count(shown.ours);
    assert!(drawn > 200, "{name}: {drawn} pixels of the curve of ours");
}
