use super::*;
use crate::certificates::x509::certificates;

const HOST: &str = "hooks.ours.svc";
const DAY: Duration = Duration::from_hours(24);

fn renewal(host: &str) -> Renewal {
    Renewal {
        host: host.to_owned(),
        before: 180 * DAY,
        keep_old_ca: Duration::from_mins(10),
    }
}

fn replaced(decision: Result<Decision, CertificateError>) -> (Artifacts, String) {
    match decision.unwrap() {
        Decision::Replace(artifacts, reason) => (*artifacts, reason),
        Decision::Keep(wake) => panic!("kept, {wake:?}"),
    }
}

fn made(now: SystemTime) -> Artifacts {
    replaced(renewal(HOST).decide(&Artifacts::default(), None, now)).0
}

/// Certificates of a CA and a leaf that end after these times.
fn ending(ca_after: Duration, leaf_after: Duration, now: SystemTime) -> Artifacts {
    let ca = Ca::new(now + ca_after - LIFE).unwrap();
    let (key, certificate) = ca.issue(HOST, now + leaf_after - LIFE).unwrap();
    Artifacts {
        ca_key: ca.key_pem,
        ca_bundle: ca.cert_pem,
        key,
        certificate,
    }
}

fn is_kept(artifacts: &Artifacts, now: SystemTime) -> bool {
    matches!(
        renewal(HOST).decide(artifacts, None, now).unwrap(),
        Decision::Keep(None)
    )
}

/// What the original left behind: RSA keys, without wrapping. Keys for tests only.
fn rsa() -> Artifacts {
    Artifacts {
        ca_key: include_bytes!("../../../fixtures/rsa/ca-key.pem").to_vec(),
        ca_bundle: include_bytes!("../../../fixtures/rsa/ca-cert.pem").to_vec(),
        key: include_bytes!("../../../fixtures/rsa/key.pem").to_vec(),
        certificate: include_bytes!("../../../fixtures/rsa/cert.pem").to_vec(),
    }
}

#[test]
fn given_nothing_then_certificates_are_made_that_clients_accept_for_ten_years() {
    let now = SystemTime::now();
    let artifacts = made(now);
    for host in [HOST, "localhost"] {
        assert!(trusted(&artifacts, host, now).is_ok(), "{host}");
        assert!(trusted(&artifacts, host, now + LIFE - DAY).is_ok(), "{host}");
        assert!(trusted(&artifacts, host, now + LIFE + DAY).is_err(), "{host}");
    }
    assert!(trusted(&artifacts, "other.ours.svc", now).is_err());
    assert!(is_kept(&artifacts, now));
}

#[test]
fn given_an_address_then_it_is_a_name_of_the_certificate() {
    let now = SystemTime::now();
    for host in ["10.0.0.5", "::1"] {
        let artifacts = replaced(renewal(host).decide(&Artifacts::default(), None, now)).0;
        assert!(trusted(&artifacts, host, now).is_ok(), "{host}");
        assert!(trusted(&artifacts, "localhost", now).is_ok());
    }
}

#[test]
fn given_the_certificate_ends_soon_and_the_ca_does_not_then_the_bundle_stays() {
    let now = SystemTime::now();
    let old = ending(5 * 365 * DAY, 170 * DAY, now);
    let (new, _) = replaced(renewal(HOST).decide(&old, None, now));
    assert_eq!((&new.ca_bundle, &new.ca_key), (&old.ca_bundle, &old.ca_key));
    assert_ne!(new.certificate, old.certificate);
    assert!(is_kept(&new, now));
    assert!(is_kept(&ending(5 * 365 * DAY, 190 * DAY, now), now), "not yet");
}

#[test]
fn given_the_ca_ends_within_a_year_then_there_is_a_new_one_in_front_of_it() {
    let now = SystemTime::now();
    let old = ending(300 * DAY, 9 * 365 * DAY, now);
    let (new, reason) = replaced(renewal(HOST).decide(&old, None, now));
    assert!(reason.contains("CA"), "{reason}");
    let (bundle, before) = (
        certificates(&new.ca_bundle).unwrap(),
        certificates(&old.ca_bundle).unwrap(),
    );
    assert_eq!(bundle.len(), 2);
    assert_eq!(bundle[1], before[0]);
    assert_eq!(trusted(&new, HOST, now).unwrap().ca, bundle[0]);
    // Who still shows the old certificate is trusted too.
    let old_leaf = Artifacts {
        ca_bundle: new.ca_bundle.clone(),
        ..old
    };
    assert!(trusted(&old_leaf, HOST, now).is_ok());
}

#[test]
fn given_an_old_ca_then_it_leaves_the_bundle_after_a_while() {
    let now = SystemTime::now();
    let (new, _) = replaced(renewal(HOST).decide(&ending(300 * DAY, 400 * DAY, now), None, now));
    let minutes = |count| now + Duration::from_mins(count);
    let Decision::Keep(Some(wake)) = renewal(HOST).decide(&new, None, minutes(4)).unwrap() else {
        panic!("not kept");
    };
    assert!(
        wake <= Duration::from_mins(7) && wake >= Duration::from_mins(5),
        "{wake:?}"
    );
    let (alone, _) = replaced(renewal(HOST).decide(&new, None, minutes(11)));
    assert_eq!(certificates(&alone.ca_bundle).unwrap().len(), 1);
    assert_eq!(
        (&alone.key, &alone.certificate, &alone.ca_key),
        (&new.key, &new.certificate, &new.ca_key)
    );
    assert!(is_kept(&alone, minutes(11)));
}

#[test]
fn given_the_certificates_are_lost_while_some_are_shown_then_the_shown_ca_stays_trusted() {
    let now = SystemTime::now();
    let shown = made(now);
    let (new, _) = replaced(renewal(HOST).decide(&Artifacts::default(), Some(&shown), now));
    let bundle = certificates(&new.ca_bundle).unwrap();
    assert_eq!(bundle[1..], certificates(&shown.ca_bundle).unwrap()[..]);
}

#[test]
fn given_certificates_that_do_not_fit_then_they_are_replaced_by_the_same_ca_if_it_can_sign() {
    let now = SystemTime::now();
    let good = made(now);
    let foreign = made(now);
    let no_pem = |text: &str| text.as_bytes().to_vec();
    let table = [
        (
            "another key",
            Artifacts {
                key: foreign.key.clone(),
                ..good.clone()
            },
            true,
        ),
        (
            "another CA's",
            Artifacts {
                certificate: foreign.certificate.clone(),
                key: foreign.key.clone(),
                ..good.clone()
            },
            true,
        ),
        (
            "no key",
            Artifacts {
                key: vec![],
                ..good.clone()
            },
            true,
        ),
        (
            "no certificate",
            Artifacts {
                certificate: no_pem("x"),
                ..good.clone()
            },
            true,
        ),
        (
            "broken PEM",
            Artifacts {
                certificate: no_pem("-----BEGIN CERTIFICATE-----\n%%\n-----END CERTIFICATE-----\n"),
                ..good.clone()
            },
            true,
        ),
        (
            "no CA",
            Artifacts {
                ca_bundle: vec![],
                ..good.clone()
            },
            false,
        ),
        (
            "broken CA",
            Artifacts {
                ca_bundle: no_pem("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"),
                ..good.clone()
            },
            false,
        ),
        (
            "another CA",
            Artifacts {
                ca_bundle: foreign.ca_bundle.clone(),
                ..good.clone()
            },
            false,
        ),
        (
            "another CA's key and no certificate",
            Artifacts {
                ca_key: foreign.ca_key.clone(),
                certificate: vec![],
                ..good.clone()
            },
            false,
        ),
    ];
    for (case, artifacts, same_ca) in table {
        let (new, _) = replaced(renewal(HOST).decide(&artifacts, None, now));
        assert_eq!(new.ca_key == good.ca_key, same_ca, "{case}");
        assert!(trusted(&new, HOST, now + 180 * DAY).is_ok(), "{case}");
    }
}

#[test]
fn given_another_host_then_the_same_ca_signs_for_it() {
    let now = SystemTime::now();
    let old = made(now);
    let (new, _) = replaced(renewal("elsewhere.ours.svc").decide(&old, None, now));
    assert_eq!(new.ca_bundle, old.ca_bundle);
    assert!(trusted(&new, "elsewhere.ours.svc", now).is_ok());
}

#[test]
fn given_a_ca_without_its_key_then_good_certificates_are_kept() {
    let now = SystemTime::now();
    let artifacts = Artifacts {
        ca_key: vec![],
        ..made(now)
    };
    assert!(is_kept(&artifacts, now));
}

#[test]
fn given_the_keys_of_the_original_then_they_are_kept_and_its_ca_signs_again() {
    let now = SystemTime::now();
    for host in ["127.0.0.1", "kruise-webhook-service.kruise-system.svc"] {
        assert_eq!(
            renewal(host).decide(&rsa(), None, now).unwrap(),
            Decision::Keep(None),
            "{host}"
        );
    }
    let (new, _) = replaced(renewal("another.svc").decide(&rsa(), None, now));
    assert_eq!((&new.ca_bundle, &new.ca_key), (&rsa().ca_bundle, &rsa().ca_key));
    assert!(trusted(&new, "another.svc", now).is_ok());
    assert!(trusted(&new, "localhost", now).is_ok());
}

#[test]
fn given_a_wish_for_renewal_before_it_is_possible_then_it_does_not_go_on_forever() {
    let now = SystemTime::now();
    for years in [4, 9, 30] {
        let eager = Renewal {
            before: years * 365 * DAY,
            ..renewal(HOST)
        };
        let (new, _) = replaced(eager.decide(&ending(2 * 365 * DAY, 9 * 365 * DAY, now), None, now));
        assert!(
            matches!(eager.decide(&new, None, now).unwrap(), Decision::Keep(_)),
            "{years}"
        );
    }
}
