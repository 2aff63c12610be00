// A morphir extension that answers everything with nothing, for the trial of a compiled program.
use std::io::{BufRead, Write};

fn main() {
    for line in std::io::stdin().lock().lines() {
        let line = line.unwrap();
        let id: String = line
            .split("\"id\":")
            .nth(1)
            .unwrap_or("0")
            .trim_start()
            .chars()
            .take_while(|c| c.is_ascii_digit())
            .collect();
        let result = if line.contains("\"capabilities\"") { "[]" } else { "null" };
        println!("{{\"id\":{},\"result\":{}}}", id, result);
        std::io::stdout().flush().unwrap();
    }
}
