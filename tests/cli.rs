//! The program from outside: what it prints, where, and with which code it ends.

#![cfg(unix)]
#![allow(clippy::unwrap_used)]

#[allow(dead_code, reason = "other tests of the program use the rest")]
#[path = "cli/program.rs"]
mod program;
#[path = "cli/stopping.rs"]
mod stopping;

mod evaluating {
    use super::program::{Program, temporary_file};

    #[test]
    fn value_is_printed_as_javascript() {
        let done = Program::new(["eval", "-e", "new Map([['a', 1n]])"]).run();
        assert_eq!((done.code, done.stdout.as_str()), (0, "Map(1) { 'a' => 1n }\n"));
    }

    #[test]
    fn value_is_printed_in_its_wire_form_on_demand() {
        let done = Program::new(["eval", "--json", "-e", "console.log('aside'); [1n]"]).run();
        assert_eq!((done.code, done.stdout.as_str()), (0, "[{\"$bigint\":\"1\"}]\n"));
        assert_eq!(done.stderr, "aside\n");
    }

    #[test]
    fn code_comes_from_a_file_or_from_stdin() {
        let file = temporary_file("code.ts", "const n: number = 20;\nn * 2 + 2");
        let done = Program::new(["eval", file.to_str().unwrap()]).run();
        assert_eq!((done.code, done.stdout.as_str()), (0, "42\n"));
        for arguments in [vec!["eval", "-"], vec!["eval"]] {
            let done = Program::new(arguments).input("'from ' + 'stdin'").run();
            assert_eq!((done.code, done.stdout.as_str()), (0, "from stdin\n"));
        }
    }

    #[test]
    fn console_is_split_as_a_terminal_would() {
        let done = Program::new(["eval", "-e", "console.log('out'); console.error('err')"]).run();
        assert_eq!((done.stdout.as_str(), done.stderr.as_str()), ("out\n", "err\n"));
    }

    #[test]
    fn error_marks_its_place_and_ends_with_1() {
        let file = temporary_file("fails.js", "const a = 1;\n  missing(a)");
        let done = Program::new(["eval", file.to_str().unwrap()]).run();
        assert_eq!((done.code, done.stdout.as_str()), (1, ""));
        assert!(done.stderr.starts_with("ReferenceError: missing is not defined\n"), "{}", done.stderr);
        let marked = "\n  1 | const a = 1;\n> 2 |   missing(a)\n    |   ^\n";
        assert!(done.stderr.ends_with(marked), "{}", done.stderr);
    }

    #[test]
    fn cause_of_an_error_is_printed() {
        let done =
            Program::new(["eval", "-e", "throw new Error('outer', {cause: new TypeError('inner')})"]).run();
        assert!(done.stderr.contains("caused by TypeError: inner"), "{}", done.stderr);
    }

    #[test]
    fn timeout_ends_the_eval() {
        let done = Program::new(["eval", "--timeout-ms", "50", "-e", "for (;;);"]).run();
        assert_eq!(done.code, 1);
        assert!(done.stderr.contains("Timeout"), "{}", done.stderr);
    }

    #[test]
    fn interrupt_cancels_the_eval() {
        let code = "console.log('running'); await new Promise(() => setInterval(() => {}, 1000))";
        let mut running = Program::new(["eval", "-e", code]).start();
        assert_eq!(running.line(), "running");
        running.signal("INT");
        let done = running.end();
        assert_eq!(done.code, 1);
        assert!(done.stderr.contains("Cancelled"), "{}", done.stderr);
    }

    #[test]
    fn wrong_usage_ends_with_2() {
        for arguments in [vec!["eval", "-e", "1", "x.js"], vec!["eval", "/nonexistent/x.js"], vec!["--nope"]]
        {
            let done = Program::new(arguments).run();
            assert_eq!((done.code, done.stdout.as_str()), (2, ""), "{}", done.stderr);
        }
    }

    #[test]
    fn server_that_is_not_there_ends_with_1() {
        let done = Program::new(["eval", "--url", "ws://127.0.0.1:1", "-e", "1"]).run();
        assert_eq!(done.code, 1);
        assert!(done.stderr.contains("ws://127.0.0.1:1"), "{}", done.stderr);
    }
}

mod serving {
    use super::program::{Program, temporary_file};

    #[test]
    fn first_line_says_where_and_evals_work_there() {
        let mut server = Program::new(["--listen", "127.0.0.1:0"]).start();
        let line = server.line();
        let port = line.strip_prefix("listening on http://127.0.0.1:").unwrap();
        assert_ne!(port.parse::<u16>().unwrap(), 0);
        let url = format!("ws://127.0.0.1:{port}");
        let done = Program::new(["eval", "--url", &url, "-e", "6 * 7"]).run();
        assert_eq!((done.code, done.stdout.as_str()), (0, "42\n"));
        server.signal("TERM");
        assert_eq!(server.end().code, 0);
    }

    #[test]
    fn interrupt_stops_it_too() {
        let mut server = Program::new(["--listen", "127.0.0.1:0"]).start();
        server.line();
        server.signal("INT");
        assert_eq!(server.end().code, 0);
    }

    #[test]
    fn flag_beats_a_variable_beats_the_file() {
        let file = temporary_file("order.toml", "listen = '127.0.0.2:0'\n");
        let file = file.to_str().unwrap();
        let address = |program: Program| {
            let mut server = program.start();
            let line = server.line();
            server.signal("TERM");
            assert_eq!(server.end().code, 0);
            line.strip_prefix("listening on http://").unwrap().split(':').next().unwrap().to_owned()
        };
        assert_eq!(address(Program::new(["--config", file])), "127.0.0.2");
        let variable = ("SCOMP_LISTEN", "127.0.0.3:0");
        assert_eq!(address(Program::new(["--config", file]).variable(variable)), "127.0.0.3");
        let flagged = Program::new(["--config", file, "--listen", "127.0.0.4:0"]).variable(variable);
        assert_eq!(address(flagged), "127.0.0.4");
    }

    #[test]
    fn public_address_is_refused_without_authentication() {
        let done = Program::new(["--listen", "0.0.0.0:0"]).run();
        assert_eq!((done.code, done.stdout.as_str()), (2, ""));
        assert!(done.stderr.contains("authenticat"), "{}", done.stderr);
    }

    #[test]
    fn limits_that_would_crash_are_refused_at_start() {
        let done = Program::new(["--listen", "127.0.0.1:0"])
            .variable(("SCOMP_LIMITS_MEMORY_BYTES_MAX", "64"))
            .variable(("SCOMP_LIMITS_STACK_BYTES_MAX", "18874368"))
            .run();
        assert_eq!((done.code, done.stdout.as_str()), (2, ""));
        for named in ["limits.memory_bytes_max: expected", "limits.stack_bytes_max: expected"] {
            assert!(done.stderr.contains(named), "{}", done.stderr);
        }
    }

    #[test]
    fn address_in_use_ends_with_1() {
        let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let done = Program::new(["--listen", &taken.local_addr().unwrap().to_string()]).run();
        assert_eq!((done.code, done.stdout.as_str()), (1, ""));
    }

    #[test]
    fn unknown_key_is_named_with_its_file() {
        let file = temporary_file("unknown.toml", "[limits]\ncpu_seconds = 1\n");
        let done = Program::new(["--config", file.to_str().unwrap()]).run();
        assert_eq!(done.code, 2);
        assert!(
            done.stderr.contains("cpu_seconds") && done.stderr.contains("unknown.toml"),
            "{}",
            done.stderr
        );
    }

    #[test]
    fn unknown_limit_in_the_environment_is_named() {
        let done = Program::new(["--stdio"]).variable(("SCOMP_LIMITS_CPU", "1")).run();
        assert_eq!(done.code, 2);
        assert!(done.stderr.contains("SCOMP_LIMITS_CPU"), "{}", done.stderr);
    }

    #[test]
    fn limit_from_the_environment_holds() {
        let code = "await new Promise(resolve => setTimeout(resolve, 3_600_000))";
        let done = Program::new(["eval", "-e", code]).variable(("SCOMP_LIMITS_WALL_MS_MAX", "50")).run();
        assert_eq!(done.code, 1);
        assert!(done.stderr.contains("50 ms"), "{}", done.stderr);
    }

    #[test]
    fn log_is_json_on_demand() {
        let mut server =
            Program::new(["--listen", "127.0.0.1:0"]).variable(("SCOMP_LOG_FORMAT", "json")).start();
        server.line();
        server.signal("TERM");
        let done = server.end();
        let first = done.stderr.lines().next().unwrap();
        assert_eq!(serde_json::from_str::<serde_json::Value>(first).unwrap()["level"], "INFO");
    }
}

mod over_stdio {
    use super::program::Program;
    use serde_json::{Value, json};

    const HANDSHAKE: &str = r#"{"jsonrpc":"2.0","id":1,"method":"handshake","params":{"protocol":"0.1","bindings":[{"name":"ask"}]}}"#;

    fn eval(id: u64, code: &str) -> String {
        json!({"jsonrpc": "2.0", "id": id, "method": "eval", "params": {"code": code}}).to_string()
    }

    fn read(line: &str) -> Value {
        serde_json::from_str(line).unwrap()
    }

    #[test]
    fn conversation_goes_both_ways() {
        let mut server = Program::new(["--stdio"]).start();
        server.send(HANDSHAKE);
        assert_eq!(read(&server.line())["result"]["protocol"], "0.1");
        server.send(&eval(2, "const answer = await ask({n: 1}); answer + 1"));
        let asked = read(&server.line());
        assert_eq!((&asked["method"], &asked["params"]["input"]), (&json!("invoke"), &json!({"n": 1})));
        server.send(&json!({"jsonrpc": "2.0", "id": asked["id"], "result": {"value": 41}}).to_string());
        assert_eq!(read(&server.line()), json!({"jsonrpc": "2.0", "id": 2, "result": {"value": 42}}));
        server.send(&eval(3, "answer"));
        assert_eq!(read(&server.line())["result"]["value"], 41);
        assert_eq!(server.end().code, 0);
    }

    #[test]
    fn what_was_asked_before_the_end_of_input_is_answered() {
        let input = [
            HANDSHAKE.to_owned(),
            eval(2, "await new Promise(resolve => setTimeout(resolve, 20)); 'done'"),
            eval(3, "await ask({}).catch(error => error.name)"),
        ];
        let done = Program::new(["--stdio"]).input(&input.join("\n")).run();
        assert_eq!(done.code, 0);
        let messages: Vec<Value> = done.stdout.lines().map(read).collect();
        let value = |id: u64| {
            let answer =
                messages.iter().find(|message| message["id"] == id && message.get("result").is_some());
            answer.unwrap()["result"]["value"].clone()
        };
        assert_eq!((value(2), value(3)), (json!("done"), json!("PeerGone")));
    }

    #[test]
    fn only_the_protocol_is_on_stdout() {
        let done = Program::new(["--stdio"]).variable(("SCOMP_LOG", "trace")).input("not json\n").run();
        assert_eq!(done.code, 0);
        assert_eq!(done.stdout.lines().count(), 1);
        assert_eq!(read(&done.stdout)["error"]["code"], -32700);
    }

    #[test]
    fn running_eval_is_answered_before_a_signal_ends_the_program() {
        let mut server = Program::new(["--stdio"]).start();
        server.send(HANDSHAKE);
        server.line();
        server.send(&eval(2, "await ask({})"));
        let asked = read(&server.line());
        server.signal("TERM");
        server.send(&json!({"jsonrpc": "2.0", "id": asked["id"], "result": {"value": "late"}}).to_string());
        assert_eq!(read(&server.line())["result"]["value"], "late");
        assert_eq!(server.end_with_open_input().code, 0);
    }
}

mod looking {
    use super::program::Program;

    #[test]
    fn folder_that_is_not_there_is_a_problem() {
        let done = Program::new(["check", "--bindings", "/nonexistent/bindings"]).run();
        assert_eq!(done.code, 1);
        assert!(done.stderr.contains("/nonexistent/bindings"), "{}", done.stderr);
        assert_eq!(Program::new(["--bindings", "/nonexistent/bindings"]).run().code, 2);
    }

    #[test]
    fn check_without_bindings_checks_the_settings() {
        let done = Program::new(["check"]).run();
        assert_eq!(
            (done.code, done.stdout.as_str()),
            (0, "0 packages, 0 bindings, 0 services, no problems\n")
        );
    }

    #[test]
    fn types_without_bindings_are_fine() {
        assert_eq!(Program::new(["types"]).run().code, 0);
    }

    #[test]
    fn help_and_version_end_with_0() {
        let help = Program::new(["--help"]).run();
        assert!(help.code == 0 && help.stdout.contains("Examples:"));
        let version = Program::new(["--version"]).run();
        assert_eq!(version.stdout, format!("scomp-serve {}\n", env!("CARGO_PKG_VERSION")));
    }
}

mod line_by_line {
    use super::program::{Program, empty_folder, temporary_file};

    /// In a server of its own, whatever else listens on this machine.
    fn repl(input: &str) -> super::program::Done {
        let folder = empty_folder("repl");
        Program::new(["repl", "--bindings", folder.to_str().unwrap()]).input(input).run()
    }

    #[test]
    fn input_goes_on_while_something_is_open_and_declarations_stay() {
        let done = repl("const a = {\n  b: [1,\n2]}\na\n`x\ny`\n");
        assert_eq!((done.code, done.stdout.as_str()), (0, "undefined\n{ b: [ 1, 2 ] }\n'x\\ny'\n"));
        assert!(done.stderr.contains("inside this program"), "{}", done.stderr);
    }

    #[test]
    fn error_does_not_end_it() {
        let done = repl("nope\n1\n");
        assert_eq!((done.code, done.stdout.as_str()), (0, "1\n"));
        assert!(done.stderr.contains("ReferenceError"), "{}", done.stderr);
    }

    #[test]
    fn input_that_is_cut_off_is_reported() {
        let done = repl("1\nconst a = {");
        assert_eq!((done.code, done.stdout.as_str()), (0, "1\n"));
        assert!(done.stderr.contains("SyntaxError"), "{}", done.stderr);
    }

    #[test]
    fn commands_are_understood() {
        let file = temporary_file("load.js", "var loaded = 'yes'; loaded");
        let done = repl(&format!(".load {}\n.reset\ntypeof loaded\n.bindings\n.exit\n1\n", file.display()));
        assert_eq!(done.code, 0);
        assert!(done.stdout.starts_with("'yes'\n'undefined'\n") && done.stdout.contains("session.cancel"));
        assert!(!done.stdout.ends_with("\n1\n"), "{}", done.stdout);
    }
}
