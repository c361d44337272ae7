//! What to use instead of names that other environments have.

/// One sentence on a name that does not exist here; `typeof` of it stays `undefined`, and a binding of that name wins.
pub(super) fn of(name: &str) -> Option<&'static str> {
    Some(match name {
        "require" => "there are no modules to require; use the bindings and the built-in classes",
        "module" | "exports" => "there are no modules; the value of the last expression is the result",
        "process" => "there is no process or environment; what the code needs comes from bindings",
        "Buffer" => "use Uint8Array with TextEncoder, TextDecoder, toBase64() and Uint8Array.fromBase64()",
        "Deno" | "Bun" => "the code runs in a sandbox without a runtime's own API; use the bindings",
        "fs" => "there is no file system; files are reached through bindings, if the server has one for them",
        "path" | "os" | "child_process" | "http" | "https" | "axios" => {
            "there are no modules; use the bindings that the server has"
        }
        "__dirname" | "__filename" => "the code is not a file",
        "window" | "document" | "localStorage" | "sessionStorage" | "navigator" | "location" | "alert"
        | "XMLHttpRequest" => "the code does not run in a browser; globalThis is the global object",
        "fetch" => "there is no fetch; use the binding http.request, if the server has it",
        "print" | "puts" | "println" | "echo" => "use console.log",
        "None" | "nil" => "use null",
        "True" => "use true",
        "False" => "use false",
        "len" => "use the property length",
        "str" => "use String(value)",
        "range" => "use Array.from({ length: n }, (_, i) => i)",
        "sleep" => "use await new Promise((resolve) => setTimeout(resolve, ms))",
        "input" | "prompt" | "readline" => "the code cannot ask a person; use a binding of the client",
        "lodash" | "_" | "moment" | "dayjs" => "there are no packages; use the built-in classes",
        _ => return None,
    })
}
