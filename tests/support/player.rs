//! Plays a transcript against a server: the conformance suite is in the transcripts, not here.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use serde_json::{Value, json};

use super::Running;
use super::pattern::{Memory, filled, matches};
use super::script::{Step, parse};
use super::wire::{Arrival, Wire};

/// How long nothing has to come where a transcript says that nothing comes.
const QUIET: Duration = Duration::from_millis(150);

/// The id of the handshakes that the player does by itself, and the ids of `js>` from this on.
const FIRST_EVAL_ID: u64 = 1001;

#[derive(Default)]
struct Settings {
    limits: Option<Value>,
    sessions: Option<Value>,
    params: Option<Value>,
    live: bool,
}

struct Player<'a> {
    url: &'a str,
    settings: Settings,
    wires: HashMap<String, Wire>,
    current: String,
    memory: Memory,
    evals: VecDeque<u64>,
    next_eval: u64,
}

/// Plays one transcript; an error names the line. `shared` serves those that ask for no settings of their own.
pub async fn play(text: &str, shared: &Running) -> Result<(), String> {
    let steps = parse(text)?;
    let settings = read_settings(&steps)?;
    let own = match (&settings.limits, &settings.sessions) {
        (None, None) => None,
        (limits, sessions) => {
            let limits = limits.clone().unwrap_or_else(|| json!({}));
            let sessions = sessions.clone().unwrap_or_else(|| json!({}));
            let limits = serde_json::from_value(limits).map_err(|error| error.to_string())?;
            let sessions = serde_json::from_value(sessions).map_err(|error| error.to_string())?;
            Some(Running::start(limits, sessions).await)
        }
    };
    let mut player = Player {
        url: &own.as_ref().unwrap_or(shared).url,
        settings,
        wires: HashMap::new(),
        current: String::new(),
        memory: Memory::new(),
        evals: VecDeque::new(),
        next_eval: FIRST_EVAL_ID,
    };
    if !matches!(
        steps.iter().find(|(_, step)| !matches!(step, Step::Setting(_))),
        Some((_, Step::Connection { .. }))
    ) {
        player.connect("", None).await?;
    }
    for (line, step) in &steps {
        player.step(step).await.map_err(|message| format!("{line}: {message}"))?;
    }
    drop(player);
    if let Some(own) = own {
        own.server.stop(Duration::ZERO).await;
    }
    Ok(())
}

fn read_settings(steps: &[(usize, Step)]) -> Result<Settings, String> {
    let mut settings = Settings::default();
    for (line, step) in steps {
        let Step::Setting(text) = step else { continue };
        let (word, json) = text.split_once(' ').unwrap_or((text, "null"));
        let value: Value = serde_json::from_str(json).map_err(|error| format!("{line}: {error}"))?;
        match word {
            "live" => settings.live = true,
            "limits" => settings.limits = Some(value),
            "sessions" => settings.sessions = Some(value),
            "params" => settings.params = Some(value),
            _ => return Err(format!("{line}: no setting `{word}`")),
        }
    }
    Ok(settings)
}

impl Player<'_> {
    async fn connect(&mut self, name: &str, offer: Option<&str>) -> Result<(), String> {
        name.clone_into(&mut self.current);
        if self.wires.contains_key(name) {
            return Ok(());
        }
        let wire = Wire::offering(self.url, offer).await;
        self.wires.insert(name.to_owned(), wire);
        if self.settings.live {
            let mut params = self.settings.params.clone().unwrap_or_else(|| json!({}));
            params["protocol"] = json!("0.1");
            let request = json!({"jsonrpc": "2.0", "id": "live", "method": "handshake", "params": params});
            self.wire()?.text(&request.to_string()).await;
            self.expect(r#"{"jsonrpc":"2.0","id":"live","result":"*"}"#).await?;
        }
        Ok(())
    }

    fn wire(&mut self) -> Result<&mut Wire, String> {
        self.wires.get_mut(&self.current).ok_or_else(|| "the connection is closed".to_owned())
    }

    async fn step(&mut self, step: &Step) -> Result<(), String> {
        match step {
            Step::Setting(_) => Ok(()),
            Step::Connection { name, offer } => self.connect(name, offer.as_deref()).await,
            Step::Agreed(expected) => {
                let agreed = self.wire()?.subprotocol.clone();
                if agreed == *expected { Ok(()) } else { Err(format!("agreed on {agreed:?}")) }
            }
            Step::Send(text) => {
                let text = filled(text, &self.memory);
                self.wire()?.text(&text).await;
                Ok(())
            }
            Step::SendBinary(text) => {
                self.wire()?.binary(text.clone().into_bytes()).await;
                Ok(())
            }
            Step::Expect(json) => self.expect(json).await,
            Step::ExpectExactly(text) => match self.wire()?.next().await {
                Arrival::Text(got) if got == *text => Ok(()),
                other => Err(format!("expected exactly {text}, got {other:?}")),
            },
            Step::ExpectClose(code) => match self.wire()?.next().await {
                Arrival::Closed(got) if got == *code => Ok(()),
                other => Err(format!("expected close {code}, got {other:?}")),
            },
            Step::ExpectNothing => match self.wire()?.next_within(QUIET).await {
                Arrival::Silence => Ok(()),
                other => Err(format!("expected nothing, got {other:?}")),
            },
            Step::Close | Step::Drop => {
                let wire = self.wires.remove(&self.current).ok_or("closed already")?;
                if *step == Step::Close {
                    wire.close().await;
                }
                Ok(())
            }
            Step::Eval(code) => self.eval(code).await,
            Step::Value(json) => self.answer(r#""result":{"value":"#, json, r#","...":"*"}"#).await,
            Step::Failure(json) => self.answer(r#""error":"#, &lenient(json)?, "").await,
        }
    }

    async fn eval(&mut self, code: &str) -> Result<(), String> {
        let id = self.next_eval;
        self.next_eval += 1;
        self.evals.push_back(id);
        let code = filled(code, &self.memory);
        let request = json!({"jsonrpc": "2.0", "id": id, "method": "eval", "params": {"code": code}});
        self.wire()?.text(&request.to_string()).await;
        Ok(())
    }

    async fn answer(&mut self, before: &str, json: &str, after: &str) -> Result<(), String> {
        let id = self.evals.pop_front().ok_or("no eval waits for an answer")?;
        self.expect(&format!(r#"{{"jsonrpc":"2.0","id":{id},{before}{json}{after}}}"#)).await
    }

    async fn expect(&mut self, json: &str) -> Result<(), String> {
        let expected: Value = serde_json::from_str(json)
            .map_err(|error| format!("the transcript has no JSON here: {error}"))?;
        match self.wire()?.next().await {
            Arrival::Text(text) => {
                let got: Value = serde_json::from_str(&text).map_err(|error| format!("{error}: {text}"))?;
                matches(&expected, &got, &mut self.memory, "")
                    .map_err(|message| format!("{message}\n    in {text}"))
            }
            other => Err(format!("expected {json}, got {other:?}")),
        }
    }
}

/// An expected error, with further members allowed in it and in its data.
fn lenient(json: &str) -> Result<String, String> {
    let mut error: Value = serde_json::from_str(json).map_err(|error| format!("no JSON: {error}"))?;
    error["..."] = json!("*");
    if let Some(data) = error.get_mut("data").filter(|data| data.is_object()) {
        data["..."] = json!("*");
    }
    Ok(error.to_string())
}
