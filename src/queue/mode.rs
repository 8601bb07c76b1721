//! How Kueue is configured, and with that to choose victims: in the file that it was started with, which its release
//! keeps in a ConfigMap.

use serde_json::Value;

use super::state::{Mode, Strategy};
use crate::observed::{ObjectKey, ObjectKind};

/// Where the release keeps Kueue's Configuration.
pub fn configuration() -> ObjectKey {
    ObjectKey::namespaced(ObjectKind::ConfigMap, "kueue-system", "kueue-manager-config")
}

/// Kueue's file in the ConfigMap, with the key that it stands under; none where nobody can read it.
pub fn file(map: &Value) -> Option<(String, Value)> {
    let parsed = |(key, text): (&String, &Value)| {
        let file: Value = serde_saphyr::from_str(text.as_str()?).ok()?;
        file.is_object().then(|| (key.clone(), file))
    };
    map["data"].as_object()?.iter().find_map(parsed)
}

/// The file as it is written.
pub fn text(file: &Value) -> String {
    serde_saphyr::to_string(file).unwrap_or_else(|_| file.to_string())
}

/// What the ConfigMap says. Without one, or with one that nobody can read, the default: fair sharing is off.
pub fn mode(map: Option<&Value>) -> Mode {
    let file = map.and_then(file).map(|(_, file)| file);
    let fair = file.and_then(|file| {
        let fair = file.get("fairSharing")?.as_object()?.clone();
        // Before v1beta2 the block had a switch of its own.
        (fair.get("enable").and_then(Value::as_bool) != Some(false)).then_some(fair)
    });
    let Some(fair) = fair else { return Mode::Classical };
    let named = fair.get("preemptionStrategies").and_then(Value::as_array).into_iter().flatten();
    let strategies: Vec<Strategy> = named
        .filter_map(|name| match name.as_str()? {
            "LessThanOrEqualToFinalShare" => Some(Strategy::LessThanOrEqualToFinalShare),
            "LessThanInitialShare" => Some(Strategy::LessThanInitialShare),
            _ => None,
        })
        .collect();
    // Kueue's default, where the block names none.
    let both = || vec![Strategy::LessThanOrEqualToFinalShare, Strategy::LessThanInitialShare];
    Mode::FairSharing { strategies: if strategies.is_empty() { both() } else { strategies } }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn fair_sharing_is_on_where_the_configuration_has_its_block() {
        let of = |text: &str| mode(Some(&json!({"data": {"controller_manager_config.yaml": text}})));
        let head = "apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\n";
        assert_eq!(mode(None), Mode::Classical);
        assert_eq!(of(head), Mode::Classical);
        assert_eq!(of("{["), Mode::Classical);
        let one = format!("{head}fairSharing:\n  preemptionStrategies: [LessThanInitialShare]\n");
        assert_eq!(of(&one), Mode::FairSharing { strategies: vec![Strategy::LessThanInitialShare] });
        let Mode::FairSharing { strategies } = of(&format!("{head}fairSharing: {{}}\n")) else { panic!("it is on") };
        assert_eq!(strategies.len(), 2);
        assert_eq!(of(&format!("{head}fairSharing: {{enable: false}}\n")), Mode::Classical);
    }
}
