//// A morphir extension in Gleam, compiled to JavaScript, without dependencies.
////
////     gleam build
////     exthost call shout text=hi --dialect morphir -- node build/dev/javascript/text/main.mjs
////
//// Gleam decides what is answered; `main.mjs` reads and writes the lines, and has the functions
//// for JSON that Gleam's own packages would have.

/// A JSON value.
pub type Json

@external(javascript, "./main.mjs", "text")
fn text(value: String) -> Json

@external(javascript, "./main.mjs", "object")
fn object(members: List(#(String, Json))) -> Json

@external(javascript, "./main.mjs", "array")
fn array(items: List(Json)) -> Json

@external(javascript, "./main.mjs", "textMember")
fn text_member(value: Json, name: String) -> Result(String, Nil)

@external(javascript, "./main.mjs", "upperCase")
fn upper_case(value: String) -> String

@external(javascript, "./main.mjs", "countWords")
fn count_words(value: String) -> Json

/// Returns the answer to a request: a result, or the reason why there is none.
pub fn answer(method: String, params: Json) -> Result(Json, String) {
  case method {
    "initialize" -> Ok(object([]))
    "capabilities" ->
      Ok(
        array([
          capability("echo", "Return the arguments", []),
          capability("shout", "Upper case", ["text"]),
          capability("count", "Count the words", ["text"]),
        ]),
      )
    "echo" -> Ok(params)
    "shout" -> with_text(params, fn(value) { #("text", text(upper_case(value))) })
    "count" -> with_text(params, fn(value) { #("words", count_words(value)) })
    _ -> Error("unknown method: " <> method)
  }
}

fn with_text(
  params: Json,
  use_text: fn(String) -> #(String, Json),
) -> Result(Json, String) {
  case text_member(params, "text") {
    Ok(value) -> Ok(object([use_text(value)]))
    Error(Nil) -> Error("it needs a text")
  }
}

fn capability(name: String, description: String, texts: List(String)) -> Json {
  let schema =
    object([
      #("type", text("object")),
      #("properties", object(properties(texts))),
      #("required", array(required(texts))),
    ])
  object([
    #("name", text(name)),
    #("description", text(description)),
    #("params_schema", schema),
  ])
}

fn properties(names: List(String)) -> List(#(String, Json)) {
  case names {
    [] -> []
    [name, ..others] -> [
      #(name, object([#("type", text("string"))])),
      ..properties(others)
    ]
  }
}

fn required(names: List(String)) -> List(Json) {
  case names {
    [] -> []
    [name, ..others] -> [text(name), ..required(others)]
  }
}
