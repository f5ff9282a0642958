//! Draws a figure as SVG for a page.
//!
//! A subject has its colour and its mark, and the lines of a subject differ by their dashes, so that nobody has to tell colours
//! apart. The page's style replaces these colours in the dark by lighter ones: it knows them by the values given here.

use anyhow::Result;
use plotters::coord::Shift;
use plotters::element::DashedPathElement;
use plotters::prelude::*;

use super::figure::{Figure, Line};
use super::text;
use crate::bench::score::Subject;

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// Of the picture in the units of a phone's page; it is drawn finer, because coordinates are whole numbers.
const SIZE: (u32, u32) = (360, 270);
const SWATCH: (u32, u32) = (40, 16);
const FINE: u32 = 5;

const INK: RGBColor = RGBColor(0x3d, 0x46, 0x50);
const GRID: RGBColor = RGBColor(0xd8, 0xde, 0xe4);
/// The size of letters, which has to stay readable on a phone.
const LETTERS: u32 = 13;

/// Lengths of dashes and of the gaps between them, by turn; the first is a whole line.
const DASHES: [Option<(u32, u32)>; 4] = [None, Some((8, 4)), Some((2, 4)), Some((14, 3))];

fn colour(subject: Subject) -> RGBColor {
    match subject {
        Subject::Ours => RGBColor(0x0b, 0x62, 0xa8),
        Subject::Peer => RGBColor(0xc2, 0x4a, 0x0a),
        Subject::PeerByDefault => RGBColor(0x8b, 0x3f, 0xa6),
        Subject::Bare => RGBColor(0x5f, 0x6b, 0x78),
    }
}

/// The picture of a figure; `id` names its title and description on the page.
pub(super) fn svg(figure: &Figure, id: &str) -> Result<String> {
    let mut drawn = String::new();
    draw(
        figure,
        &SVGBackend::with_string(&mut drawn, fine(SIZE)).into_drawing_area(),
    )?;
    let (title, about) = (text::html(figure.plot.title()), text::html(&figure.description()));
    Ok(framed(
        &drawn,
        SIZE,
        &format!("class=\"plot\" role=\"img\" aria-labelledby=\"{id}-title {id}-about\""),
        &format!("<title id=\"{id}-title\">{title}</title><desc id=\"{id}-about\">{about}</desc>"),
    ))
}

/// How a line looks, for the legend.
pub(super) fn swatch(line: &Line) -> Result<String> {
    let mut drawn = String::new();
    let area = SVGBackend::with_string(&mut drawn, fine(SWATCH)).into_drawing_area();
    let (width, height) = area.dim_in_pixel();
    let middle = height as i32 / 2;
    stroke(&area, line, vec![(0, middle), (width as i32, middle)])?;
    mark(&area, line, (width as i32 / 2, middle))?;
    area.present()?;
    drop(area);
    Ok(framed(&drawn, SWATCH, "class=\"swatch\" aria-hidden=\"true\"", ""))
}

fn draw(figure: &Figure, area: &Area<'_>) -> Result<()> {
    let letters = ("sans-serif", f64::from(LETTERS * FINE) * 1.24).into_font().color(&INK);
    area.draw_text(figure.plot.y_title(), &letters, (4 * FINE as i32, 2 * FINE as i32))?;
    let mut chart = ChartBuilder::on(area)
        .margin_top(28 * FINE)
        .margin_right(16 * FINE)
        .margin_bottom(2 * FINE)
        .x_label_area_size(42 * FINE)
        .y_label_area_size(48 * FINE)
        .build_cartesian_2d(figure.x_axis(), figure.y_axis())?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .bold_line_style(GRID.stroke_width(FINE))
        .axis_style(INK.stroke_width(FINE))
        .label_style(letters.clone())
        .axis_desc_style(letters)
        .set_all_tick_mark_size(4 * FINE as i32)
        .x_desc(figure.plot.x_title())
        .draw()?;
    let plane = chart.plotting_area();
    // Ours comes last, above the others.
    for line in figure.lines.iter().rev() {
        let places: Vec<(i32, i32)> = line.points.iter().map(|point| plane.map_coordinate(point)).collect();
        for place in &places {
            mark(area, line, *place)?;
        }
        stroke(area, line, places)?;
    }
    area.present()?;
    Ok(())
}

fn stroke(area: &Area<'_>, line: &Line, places: Vec<(i32, i32)>) -> Result<()> {
    let style = colour(line.subject).stroke_width(5 * FINE / 2);
    match DASHES[line.turn % DASHES.len()] {
        None => area.draw(&PathElement::new(places, style))?,
        Some((dash, gap)) => area.draw(&DashedPathElement::new(places, dash * FINE, gap * FINE, style))?,
    }
    Ok(())
}

fn mark(area: &Area<'_>, line: &Line, place: (i32, i32)) -> Result<()> {
    let size = 4 * FINE as i32;
    let style = colour(line.subject).filled();
    let (left, top) = (place.0 - size, place.1 - size);
    let (right, bottom) = (place.0 + size, place.1 + size);
    match line.subject {
        Subject::Ours => area.draw(&Circle::new(place, size, style))?,
        Subject::Peer => area.draw(&Rectangle::new([(left, top), (right, bottom)], style))?,
        Subject::PeerByDefault => area.draw(&Polygon::new([(left, bottom), (place.0, top), (right, bottom)], style))?,
        Subject::Bare => area.draw(&Polygon::new(
            [(left, place.1), (place.0, top), (right, place.1), (place.0, bottom)],
            style,
        ))?,
    }
    Ok(())
}

fn fine((width, height): (u32, u32)) -> (u32, u32) {
    (width * FINE, height * FINE)
}

/// The drawing inside a head of our own.
fn framed(drawn: &str, size: (u32, u32), attributes: &str, head: &str) -> String {
    let content = drawn.split_once('>').map_or("", |(_, content)| content).trim_start();
    let (width, height) = fine(size);
    format!("<svg {attributes} viewBox=\"0 0 {width} {height}\">{head}\n{content}")
}
