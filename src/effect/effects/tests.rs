//! What an approval covers, and what is left of it.

use super::*;

fn pool(name: &str) -> Thing {
    Thing::Pool(name.into())
}

fn amount(count: u32, dollars: i64, team: &str, highest: i32) -> Amount {
    Amount {
        count,
        usd_hour: Usd(Decimal::from(dollars)),
        gpus: count * 8,
        gpu_secs: 100,
        teams: BTreeSet::from([team.into()]),
        highest: Some(highest),
        ..Amount::default()
    }
}

fn drain(amount: Amount) -> Effects {
    Effects::one(Verb::Drain, pool("train"), amount)
}

#[test]
fn less_of_everything_is_covered() {
    let approved = drain(amount(4, 40, "vision", 200));
    assert!(drain(amount(4, 40, "vision", 200)).within(&approved).is_ok());
    assert!(drain(amount(1, 0, "vision", 100)).within(&approved).is_ok());
    assert!(Effects::default().within(&approved).is_ok());
    assert!(Effects::default().within(&Effects::default()).is_ok());
    let nobody = Amount { teams: BTreeSet::new(), highest: None, ..amount(1, 1, "vision", 1) };
    assert!(drain(nobody).within(&approved).is_ok());
}

#[test]
fn more_of_anything_is_said_with_what_was_approved() {
    let approved = drain(amount(4, 40, "vision", 200));
    for beyond in [
        amount(5, 40, "vision", 200),
        amount(4, 41, "vision", 200),
        amount(4, 40, "other", 200),
        amount(4, 40, "vision", 201),
        Amount { usd_upfront: Usd(Decimal::ONE), ..amount(4, 40, "vision", 200) },
        Amount { gpus: 33, ..amount(4, 40, "vision", 200) },
    ] {
        let excess = drain(beyond.clone()).within(&approved).unwrap_err();
        assert_eq!(excess.len(), 1);
        assert_eq!(
            (&excess[0].wanted, excess[0].approved.as_ref()),
            (&beyond, approved.get(Verb::Drain, &pool("train")))
        );
    }
    let another = Effects::one(Verb::Terminate, pool("train"), Amount::count(1));
    assert_eq!(another.within(&approved).unwrap_err()[0].approved, None);
    let elsewhere = Effects::one(Verb::Drain, pool("serve"), Amount::count(1));
    assert_eq!(elsewhere.within(&approved).unwrap_err()[0].key.to_string(), "drain pool/serve");
}

#[test]
fn work_may_grow_a_day_older_while_a_change_waits() {
    let approved = drain(amount(1, 0, "vision", 200));
    let day_older = Amount { gpu_secs: 100 + 8 * 24 * 3600, ..amount(1, 0, "vision", 200) };
    assert!(drain(day_older.clone()).within(&approved).is_ok());
    assert!(drain(Amount { gpu_secs: day_older.gpu_secs + 1, ..day_older }).within(&approved).is_err());
}

#[test]
fn what_is_done_is_spent_and_what_is_used_up_is_gone() {
    let mut approved = drain(amount(4, 40, "vision", 200));
    approved.add(&Effects::one(Verb::Launch, pool("train"), Amount::count(1)));
    let left = approved.without(&drain(amount(3, 30, "vision", 100)));
    let drains = left.get(Verb::Drain, &pool("train")).unwrap();
    assert_eq!((drains.count, drains.usd_hour, drains.gpus), (1, Usd(Decimal::TEN), 8));
    // Who may be disturbed stays.
    assert_eq!((drains.highest, drains.teams.len()), (Some(200), 1));
    assert_eq!(left.get(Verb::Launch, &pool("train")).unwrap().count, 1);
    let left = left.without(&drain(amount(1, 99, "vision", 200)));
    assert_eq!(left.get(Verb::Drain, &pool("train")), None);
    assert!(drain(amount(1, 0, "vision", 200)).within(&left).is_err(), "it never opens again");
    // What was never approved takes nothing away.
    assert_eq!(left.without(&drain(amount(1, 1, "vision", 1))), left);
}

#[test]
fn spending_in_parts_is_spending_at_once() {
    let approved = drain(amount(4, 40, "vision", 200));
    let (one, three) = (drain(amount(1, 10, "vision", 200)), drain(amount(3, 30, "vision", 200)));
    let mut both = one.clone();
    both.add(&three);
    assert_eq!(approved.without(&one).without(&three), approved.without(&both));
}

#[test]
fn sums_add_counts_and_money_and_unite_teams() {
    let mut sum = drain(amount(1, 10, "vision", 200));
    sum.add(&drain(amount(2, 5, "speech", 100)));
    let sum = sum.get(Verb::Drain, &pool("train")).unwrap().clone();
    assert_eq!((sum.count, sum.usd_hour, sum.gpus, sum.gpu_secs), (3, Usd(Decimal::from(15)), 24, 200));
    assert_eq!(sum.teams, BTreeSet::from(["speech".into(), "vision".into()]));
    assert_eq!(sum.highest, Some(200));
    let mut most = Amount::count(u32::MAX);
    most.add(&Amount::count(1));
    assert_eq!(most.count, u32::MAX, "a bound that overflows stays a bound");
}

#[test]
fn the_digest_follows_the_effects_and_survives_being_written() {
    let one = drain(amount(1, 10, "vision", 200));
    let text = serde_json::to_string(&one).unwrap();
    let read: Effects = serde_json::from_str(&text).unwrap();
    assert_eq!((&read, read.digest()), (&one, one.digest()));
    assert_ne!(one.digest(), drain(amount(2, 10, "vision", 200)).digest());
    assert_ne!(one.digest(), Effects::default().digest());
}

#[test]
fn every_key_is_read_back_as_it_is_written() {
    let things = [
        Thing::Fleet,
        pool("train"),
        Thing::Reservation("h100".into()),
        Thing::Quota("vision".into()),
        Thing::Tide("nightly".into()),
        Thing::Objects("ClusterQueue".into()),
    ];
    for on in things {
        for verb in Verb::ALL {
            let key = EffectKey { verb, on: on.clone() };
            assert_eq!(key.to_string().parse(), Ok(key));
        }
    }
    for wrong in ["launch", "lunch pool/train", "launch node/a", "launch train"] {
        assert!(wrong.parse::<EffectKey>().is_err(), "{wrong}");
    }
}

#[test]
fn another_text_of_an_object_is_not_what_was_approved() {
    let key: ObjectKey = "ClusterQueue/vision".parse().unwrap();
    let on = || Thing::Quota("vision".into());
    let write = |text: &str| {
        Effects::one(Verb::Apply, on(), Amount::object(&key, Some(&crate::effect::digest(text.as_bytes()))))
    };
    assert!(write("8 GPUs").within(&write("8 GPUs")).is_ok());
    assert_ne!(write("8 GPUs").digest(), write("0 GPUs").digest());
    let beyond = write("0 GPUs").within(&write("8 GPUs")).unwrap_err();
    assert_eq!(beyond[0].wanted.unnamed(beyond[0].approved.as_ref().unwrap()).collect::<Vec<_>>(), [&key]);
    // How many was approved, and not which.
    assert!(write("8 GPUs").within(&Effects::one(Verb::Apply, on(), Amount::count(4))).is_err());
    let delete = Effects::one(Verb::Delete, on(), Amount::object(&key, None));
    let other = Amount::object(&"ClusterQueue/speech".parse().unwrap(), None);
    assert!(delete.within(&delete).is_ok());
    assert!(Effects::one(Verb::Delete, on(), other).within(&delete).is_err());
    assert!(write("8 GPUs").without(&write("8 GPUs")).is_empty());
}
