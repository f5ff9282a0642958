//! How a container is probed.
//!
//! - There is one of: a command, a connection over TCP, a request over HTTP. gRPC is not one of them.
//! - A command has at least one word. A port is a number or the name of one of the container's. A host cannot be chosen: it is the Pod.
//! - A request has a path and a scheme, `HTTP` or `HTTPS`; there is no default.
//! - Seconds and thresholds are 0 or more.

use k8s_openapi::api::core::v1::{HTTPGetAction, Probe};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use crate::field_error::{FieldError, Path};

/// Everything that is wrong with a probe.
pub(super) fn validate(probe: &Probe, at: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut handlers = 0;
    let mut handler = |name: &str, check: &dyn Fn(&Path) -> Vec<FieldError>| {
        let at = at.child(name);
        handlers += 1;
        if handlers > 1 {
            errors.push(FieldError::forbidden(&at, "may not specify more than 1 handler type"));
        } else {
            errors.extend(check(&at));
        }
    };
    if let Some(exec) = &probe.exec {
        handler("exec", &|at| {
            let is_empty = exec.command.as_ref().is_none_or(Vec::is_empty);
            is_empty
                .then(|| FieldError::required(&at.child("command"), ""))
                .into_iter()
                .collect()
        });
    }
    if let Some(get) = &probe.http_get {
        handler("httpGet", &|at| request(get, at));
    }
    if let Some(tcp) = &probe.tcp_socket {
        handler("tcpSocket", &|at| {
            let mut errors = port(&tcp.port, &at.child("port"));
            errors.extend(host(tcp.host.as_deref(), at));
            errors
        });
    }
    if handlers == 0 {
        errors.push(FieldError::required(at, "must specify a handler type"));
    }
    for (name, value) in [
        ("initialDelaySeconds", probe.initial_delay_seconds),
        ("timeoutSeconds", probe.timeout_seconds),
        ("periodSeconds", probe.period_seconds),
        ("successThreshold", probe.success_threshold),
        ("failureThreshold", probe.failure_threshold),
    ] {
        if let Some(value) = value.filter(|value| *value < 0) {
            let detail = "must be greater than or equal to 0";
            errors.push(FieldError::invalid(&at.child(name), value, detail));
        }
    }
    errors
}

fn request(get: &HTTPGetAction, at: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let path = get.path.as_deref().unwrap_or_default();
    if path.is_empty() {
        errors.push(FieldError::required(&at.child("path"), ""));
    } else if let Some(fault) = path_fault(path) {
        errors.push(FieldError::invalid(&at.child("path"), path, fault));
    }
    errors.extend(port(&get.port, &at.child("port")));
    errors.extend(host(get.host.as_deref(), at));
    let scheme = get.scheme.as_deref().unwrap_or_default();
    if !SCHEMES.contains(&scheme) {
        errors.push(FieldError::not_supported(&at.child("scheme"), scheme, &SCHEMES));
    }
    for header in get.http_headers.iter().flatten() {
        let is_inner = |sign: u8| sign.is_ascii_alphanumeric() || sign == b'-';
        if header.name.is_empty() || !header.name.bytes().all(is_inner) {
            errors.push(FieldError::invalid(&at.child("httpHeaders"), &*header.name, HEADER));
        }
    }
    errors
}

const SCHEMES: [&str; 2] = ["HTTP", "HTTPS"];
const HEADER: &str = "a valid HTTP header must consist of alphanumeric characters or '-' (e.g. 'X-Header-Name', regex used for \
    validation is '[-A-Za-z0-9]+')";

/// Why a path cannot be part of an address.
fn path_fault(path: &str) -> Option<&'static str> {
    if path.starts_with(':') {
        return Some("missing protocol scheme");
    }
    if path.bytes().any(|sign| sign.is_ascii_control()) {
        return Some("invalid control character in URL");
    }
    let before_query = path.split(['?', '#']).next().unwrap_or_default();
    let mut escapes = before_query.split('%').skip(1);
    let is_escape = |rest: &str| {
        let mut signs = rest.bytes();
        let mut digit = || signs.next().is_some_and(|sign| sign.is_ascii_hexdigit());
        digit() && digit()
    };
    (!escapes.all(is_escape)).then_some("invalid URL escape")
}

fn host(host: Option<&str>, at: &Path) -> Option<FieldError> {
    let host = host.filter(|host| !host.is_empty())?;
    Some(FieldError::invalid(
        &at.child("host"),
        host,
        "host field in probes is not allowed",
    ))
}

fn port(port: &IntOrString, at: &Path) -> Vec<FieldError> {
    match port {
        IntOrString::Int(number) if (1..=65535).contains(number) => Vec::new(),
        IntOrString::Int(number) => {
            vec![FieldError::invalid(
                at,
                *number,
                "must be between 1 and 65535, inclusive",
            )]
        }
        IntOrString::String(name) => {
            let faults = port_name_faults(name).into_iter();
            faults
                .map(|fault| FieldError::invalid(at, name.as_str(), fault))
                .collect()
        }
    }
}

/// What is wrong with the name of a port.
fn port_name_faults(name: &str) -> Vec<&'static str> {
    let is_inner = |sign: u8| sign.is_ascii_lowercase() || sign.is_ascii_digit() || sign == b'-';
    let rules = [
        (name.len() <= 15, "must be no more than 15 characters"),
        (
            name.bytes().all(is_inner),
            "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)",
        ),
        (
            name.bytes().any(|sign| sign.is_ascii_lowercase()),
            "must contain at least one letter (a-z)",
        ),
        (!name.contains("--"), "must not contain consecutive hyphens"),
        (
            !name.starts_with('-') && !name.ends_with('-'),
            "must not begin or end with a hyphen",
        ),
    ];
    rules
        .into_iter()
        .filter_map(|(holds, fault)| (!holds).then_some(fault))
        .collect()
}
