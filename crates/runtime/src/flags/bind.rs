//! Where to listen: `:8080` (every address, IPv6 and IPv4), `localhost:8090`, `10.0.0.5:80`, `[::1]:80`, `0` (nowhere).

use std::fmt;

/// The value of a flag that says where to listen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Bind {
    /// Do not listen.
    Off,
    /// Listen on this port; an empty host means every address of the machine.
    At { host: String, port: u16 },
}

/// Reads an address as Go's network library writes it.
pub fn parse_bind(text: &str) -> Result<Bind, String> {
    if text.is_empty() || text == "0" {
        return Ok(Bind::Off);
    }
    let wrong = || format!("{text:?} is not an address: write for example :8080, localhost:8080 or [::1]:8080");
    let (host, port) = text.rsplit_once(':').ok_or_else(wrong)?;
    let host = match host.strip_prefix('[') {
        Some(inner) => inner.strip_suffix(']').ok_or_else(wrong)?,
        None if host.contains(':') => return Err(wrong()),
        None => host,
    };
    if host.contains(['[', ']', '/', ' ']) {
        return Err(wrong());
    }
    let port = port
        .parse()
        .map_err(|_| format!("{text:?} has no valid port: it must be a number from 0 to 65535"))?;
    Ok(Bind::At {
        host: host.to_owned(),
        port,
    })
}

impl fmt::Display for Bind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Off => f.write_str("0"),
            Self::At { host, port } if host.contains(':') => write!(f, "[{host}]:{port}"),
            Self::At { host, port } => write!(f, "{host}:{port}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn given_addresses_then_host_and_port_are_read_and_written_back() {
        let table = [
            (":8080", "", 8080),
            ("localhost:8090", "localhost", 8090),
            ("0.0.0.0:80", "0.0.0.0", 80),
            ("[::1]:10222", "::1", 10222),
            (":0", "", 0),
        ];
        for (text, host, port) in table {
            let bind = parse_bind(text).expect(text);
            assert_eq!(
                bind,
                Bind::At {
                    host: host.to_owned(),
                    port
                }
            );
            assert_eq!(bind.to_string(), text);
        }
        assert_eq!(parse_bind(""), Ok(Bind::Off));
        assert_eq!(parse_bind("0"), Ok(Bind::Off));
    }

    #[test]
    fn given_no_address_then_the_message_names_the_value() {
        for bad in [
            "8080",
            ":http",
            ":65536",
            ":-1",
            "::1:80",
            "[::1:80",
            "a b:80",
            "http://x:80",
            ":",
        ] {
            let message = parse_bind(bad).expect_err(bad);
            assert!(message.contains(&format!("{bad:?}")), "{message}");
        }
    }
}
