//! The files of the page, as they are in the repository: no build step, nothing from elsewhere.
//!
//! A browser may load and run nothing but these files, and talk to nobody but who sent them.

use axum::{
    Router,
    http::{HeaderName, HeaderValue, header},
    response::Response,
    routing::get,
};

const FILES: [(&str, &str, &str); 5] = [
    ("/", "text/html; charset=utf-8", include_str!("site/index.html")),
    ("/page.css", "text/css; charset=utf-8", include_str!("site/page.css")),
    (
        "/page.js",
        "text/javascript; charset=utf-8",
        include_str!("site/page.js"),
    ),
    (
        "/stream.js",
        "text/javascript; charset=utf-8",
        include_str!("site/stream.js"),
    ),
    ("/icon.svg", "image/svg+xml", include_str!("site/icon.svg")),
];

const HEADERS: [(HeaderName, &str); 8] = [
    (
        header::CONTENT_SECURITY_POLICY,
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
         require-trusted-types-for 'script'; trusted-types 'none'",
    ),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::CACHE_CONTROL, "no-store"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    (
        HeaderName::from_static("permissions-policy"),
        "camera=(), geolocation=(), microphone=()",
    ),
];

/// Returns the routes of the files.
pub(super) fn router() -> Router {
    FILES.into_iter().fold(Router::new(), |router, (path, kind, text)| {
        router.route(path, get(move || async move { ([(header::CONTENT_TYPE, kind)], text) }))
    })
}

/// Says to the browser what it may do with an answer.
pub(super) async fn guarded(mut answer: Response) -> Response {
    for (name, value) in HEADERS {
        answer.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn given_the_files_then_none_names_a_foreign_address_or_has_code_in_its_text() {
        for (path, _, text) in FILES {
            for refused in [
                "https:",
                "http://",
                " style=",
                " onclick",
                "<style",
                "innerHTML",
                "eval(",
            ] {
                let is_name_of_svg = path == "/icon.svg" && refused == "http://";
                assert!(is_name_of_svg || !text.contains(refused), "{path} has {refused}");
            }
            assert!(!text.contains("<script>"), "{path}");
        }
    }

    #[test]
    fn given_the_files_then_they_are_small() {
        let all: usize = FILES.iter().map(|(_, _, text)| text.len()).sum();
        assert!(all < 64 * 1024, "{all} bytes");
    }
}
