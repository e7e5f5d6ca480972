"""From text to a checked tree: statement, parse, bind, check. No row is read here (I1)."""
