//! The benchmark's report as a reader sees it, in a real browser: Chromium, led by `chromedriver`.

mod browser {
    mod picture;
    mod report;
}
