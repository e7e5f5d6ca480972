"""A program of Java that does with a server what tools on pgJDBC do, and says what came."""

from __future__ import annotations

import subprocess
from functools import cache
from pathlib import Path

from tests.server.postgres.served import ALICE
from tests.server.postgres.test_clients import DEPTS, GROUPS, JAR

TABLES = ["regions", "staff", "visits"]
JAVA = """
import java.sql.*;
class Checks {
  interface Step { Object run() throws Exception; }
  static void say(String what, Step step) {
    try { System.out.println(what + "\\t" + step.run()); }
    catch (Exception e) { System.out.println(what + "\\tfailed: " + e); }
  }
  static String all(ResultSet r, int column) throws SQLException {
    StringBuilder b = new StringBuilder();
    while (r.next()) b.append(b.length() == 0 ? "" : " ").append(r.getString(column));
    return b.toString();
  }
  public static void main(String[] a) throws Exception {
    try (Connection c = DriverManager.getConnection(a[0], "alice", a[1])) {
      DatabaseMetaData m = c.getMetaData();
      say("rows", () -> all(c.createStatement().executeQuery(a[2]), 1));
      say("warnings", () -> {
        Statement s = c.createStatement(); s.executeQuery(a[2]);
        return s.getWarnings() != null; });
      say("setFetchSize", () -> {
        c.setAutoCommit(false);
        Statement s = c.createStatement(); s.setFetchSize(2);
        String found = all(s.executeQuery(a[2]), 1);
        c.commit(); c.setAutoCommit(true); return found; });
      say("statements prepared on the server", () -> {
        PreparedStatement p = c.prepareStatement(
          "SELECT DP_COUNT(*, eps=?) FROM staff WHERE dept = ? AND age > ? AND hired > ?");
        java.util.Set<Long> found = new java.util.HashSet<>();
        for (int i = 0; i < 7; i++) {
          p.setDouble(1, 0.5); p.setString(2, "eng"); p.setInt(3, 30);
          p.setObject(4, java.time.LocalDate.of(2010, 1, 1));
          ResultSet r = p.executeQuery(); r.next(); found.add(r.getLong(1)); }
        return found.size(); });
      say("getTables", () -> all(m.getTables(null, "public", "%", new String[]{"TABLE"}), 3));
      say("getColumns", () -> all(m.getColumns(null, "public", "staff", "%"), 4));
      say("remarks", () -> {
        ResultSet r = m.getTables(null, "public", "staff", null);
        r.next(); return r.getString("REMARKS").startsWith("privacy unit"); });
      say("keys and indexes: none", () -> all(m.getPrimaryKeys(null, "public", "staff"), 4)
        + all(m.getIndexInfo(null, "public", "staff", false, true), 6));
      say("types of a result", () -> {
        PreparedStatement p = c.prepareStatement(a[2]); ResultSetMetaData r = p.getMetaData();
        return r.getColumnTypeName(1) + " " + r.getColumnTypeName(2); });
      say("errors", () -> {
        try { c.createStatement().executeQuery("SELECT * FROM staff"); return "no error"; }
        catch (SQLException e) {
          return e.getSQLState() + " " + e.getMessage().contains("Position: 8"); } });
    }
  }
}
"""
COLUMNS = "person_id dept age salary bonus rating hired remote"
JDBC = {
    "rows": " ".join(DEPTS),
    "warnings": "true",
    "setFetchSize": " ".join(DEPTS),
    "statements prepared on the server": "1",
    "getTables": " ".join(TABLES),
    "getColumns": COLUMNS,
    "remarks": "true",
    "keys and indexes: none": "",
    "types of a result": "text int8",
    "errors": "42501 true",
}


@cache
def java_says(port: int, place: Path) -> dict[str, str]:
    source = place / "Checks.java"
    source.write_text(JAVA)
    url = f"jdbc:postgresql://127.0.0.1:{port}/dpquery"
    command = ["java", "-cp", str(JAR), str(source), url, ALICE[1], GROUPS]
    done = subprocess.run(command, capture_output=True, text=True, timeout=180, check=False)
    assert done.stdout, done.stderr
    return dict(line.split("\t", 1) for line in done.stdout.splitlines())
