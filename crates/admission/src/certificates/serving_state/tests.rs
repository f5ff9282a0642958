use super::*;
use crate::certificates::{Decision, Renewal};

const HOST: &str = "hooks.ours.svc";
const OVERLAP: Duration = Duration::from_mins(1);

fn made(kept: &Artifacts, shown: Option<&Artifacts>) -> Artifacts {
    let renewal = Renewal {
        host: HOST.into(),
        before: Duration::from_hours(24),
        keep_old_ca: OVERLAP * 4,
    };
    match renewal.decide(kept, shown, SystemTime::now()).unwrap() {
        Decision::Replace(artifacts, _) => *artifacts,
        Decision::Keep(_) => panic!("kept"),
    }
}

fn fresh() -> Artifacts {
    made(&Artifacts::default(), None)
}

struct Replica {
    serving: ServingState,
    start: Instant,
}

impl Replica {
    fn new() -> Self {
        Self {
            serving: ServingState::new(HOST.into(), OVERLAP),
            start: Instant::now(),
        }
    }

    /// One pass with these certificates kept. Returns how many CAs are handed out, whether the certificate is shown, and when to come back.
    fn pass(&mut self, kept: &Artifacts, seconds: u64) -> (usize, bool, Option<u64>) {
        let now = self.start + Duration::from_secs(seconds);
        let bundle = self.serving.bundle(kept, now);
        let (_, wake) = self.serving.injected(kept, SystemTime::now(), now).unwrap();
        let shown = self.serving.shown().unwrap();
        // Whatever is shown, clients that go by this bundle accept it.
        let checked = Artifacts {
            ca_bundle: bundle.clone(),
            ..shown.clone()
        };
        assert!(trusted(&checked, HOST, SystemTime::now()).is_ok());
        (
            certificates(&bundle).unwrap().len(),
            shown.certificate == kept.certificate,
            wake.map(|wake| wake.as_secs()),
        )
    }
}

#[test]
fn given_the_first_certificate_then_it_is_shown_at_once() {
    let mut replica = Replica::new();
    let first = fresh();
    assert_eq!(replica.pass(&first, 0), (1, true, None));
    assert_eq!(replica.pass(&first, 60), (1, true, None));
}

#[test]
fn given_a_certificate_of_the_same_ca_then_it_is_shown_at_once() {
    let mut replica = Replica::new();
    let first = fresh();
    replica.pass(&first, 0);
    let broken = Artifacts {
        certificate: vec![],
        ..first.clone()
    };
    let second = made(&broken, Some(&first));
    assert_eq!(second.ca_bundle, first.ca_bundle);
    assert_eq!(replica.pass(&second, 10), (1, true, None));
}

#[test]
fn given_a_new_ca_then_it_is_handed_out_before_its_certificate_is_shown() {
    let mut replica = Replica::new();
    let first = fresh();
    replica.pass(&first, 0);
    let second = made(&Artifacts::default(), Some(&first));
    assert_eq!(replica.pass(&second, 100), (2, false, Some(60)));
    assert_eq!(replica.pass(&second, 130), (2, false, Some(30)));
    assert_eq!(
        replica.pass(&second, 160),
        (2, true, None),
        "the bundle itself still has the old CA"
    );
    let alone = Artifacts {
        ca_bundle: pem(&certificates(&second.ca_bundle).unwrap()[0]),
        ..second
    };
    assert_eq!(replica.pass(&alone, 400), (1, true, None));
    assert_eq!(
        replica.serving.shown(),
        Some(&alone),
        "what is forgotten stays forgotten"
    );
}

#[test]
fn given_somebody_puts_other_certificates_into_the_secret_then_the_exchange_is_as_smooth() {
    let mut replica = Replica::new();
    replica.pass(&fresh(), 0);
    let foreign = fresh();
    assert_eq!(replica.pass(&foreign, 100), (2, false, Some(60)));
    assert_eq!(replica.pass(&foreign, 161), (2, true, Some(60)));
    assert_eq!(
        replica.pass(&foreign, 200),
        (2, true, Some(21)),
        "for replicas that are slower"
    );
    assert_eq!(replica.pass(&foreign, 222), (1, true, None));
}

#[test]
fn given_another_change_while_waiting_then_the_wait_begins_anew() {
    let mut replica = Replica::new();
    replica.pass(&fresh(), 0);
    let (second, third) = (fresh(), fresh());
    assert_eq!(replica.pass(&second, 100), (2, false, Some(60)));
    assert_eq!(replica.pass(&third, 150), (2, false, Some(60)));
    assert_eq!(replica.pass(&third, 210), (2, true, Some(60)));
}

#[test]
fn given_a_certificate_that_cannot_be_used_then_the_old_one_stays() {
    let mut replica = Replica::new();
    let first = fresh();
    replica.pass(&first, 0);
    let now = replica.start;
    let broken = Artifacts {
        key: fresh().key,
        ..fresh()
    };
    assert!(replica.serving.injected(&broken, SystemTime::now(), now).is_err());
    assert_eq!(replica.serving.shown(), Some(&first));
}
