"""What `dpquery explain` prints: the page of an error code, or a page of the documentation.

`docs/errors.md` holds the pages of all codes. To add a code, add a block to the text below:
code and title, the meaning, the example after `>`, the remedy. A code is never used for a
second cause. Nothing of ours is imported here.
"""

from __future__ import annotations

import string
import textwrap
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Code:
    """One cause of a refusal or fault."""

    code: str
    title: str
    meaning: str
    example: str
    remedy: str


_TEXT = """
DPQ101 not a complete query
The text ends too early, or a word stands where the grammar has no place for it.
> SELECT DP_COUNT(*, eps=0.5 FROM staff
Mend the place under the caret; here the parenthesis after DP_COUNT is not closed.

DPQ102 a construct outside the language
It is SQL, but it is not part of the dialect. Only constructs whose effect on privacy is known
are accepted; all others are refused, harmless ones too.
> SELECT DP_COUNT(*, eps=0.5) FROM staff TABLESAMPLE 10%
Write the query without it. `dpquery explain grammar` prints which part of SELECT is accepted.

DPQ103 more than one statement
Each statement is charged and answered on its own, so a call takes one. A semicolon at its end
is fine.
> SELECT DP_COUNT(*, eps=0.5) FROM staff; SELECT DP_COUNT(*, eps=0.5) FROM visits
Send the statements one after the other: each with a -c of its own, or in a file, as in
`dpquery SOURCE -c SQL -c SQL` and `dpquery SOURCE -f FILE`.

DPQ104 nothing to run
The text is empty, or holds comments and semicolons only.
> -- SELECT DP_COUNT(*, eps=0.5) FROM staff
Send a statement, such as SELECT DP_COUNT(*, eps=0.5) FROM staff.

DPQ105 a text that is too large, nested too deeply, or holds control characters
Such a text could exhaust the parser, or look different on the screen from what it does. Names
of the SELECT list inside one another count as what they stand for, and names of WITH as queries
inside the one that reads them.
> SELECT ((((((((((((((((((((((((((((((((((((1))))))))))))))))))))))))))))))))))))
Shorten the query, or ask in several queries. IN takes a long list of values without nesting.

DPQ106 a statement that is not answered
Statements read. They cannot change tables, settings, files or the ledger.
> DELETE FROM staff
Ask with SELECT. EXPLAIN SELECT, DESCRIBE staff, SHOW TABLES, SHOW BUDGET, SHOW LEDGER and SHOW
FUNCTIONS are answered too, and spend nothing.

DPQ201 a table that the policy does not name
Queries reach only the tables of the policy. No other file can be opened, by path or by URL.
> SELECT DP_COUNT(*, eps=0.5) FROM 'other.parquet'
The message lists the tables; the data owner can add one to the policy.

DPQ202 an unknown function
The function is not on the list. Functions that are not known to be total and deterministic are
refused, because what they do with one row could show.
> SELECT DP_MEDAIN(salary, eps=0.5) FROM staff
Use a function that the message names.

DPQ203 a missing argument
Every DP_ function states what it may spend. There is no default, since each epsilon is paid
from a budget that does not grow again.
> SELECT DP_COUNT(*) FROM staff
Write the argument by its name: DP_COUNT(*, eps=0.5).

DPQ204 an unknown column
The table has no such column, or the policy does not list it. Columns that the policy does not
list do not exist for analysts.
> SELECT DP_COUNT(salery, eps=0.5) FROM staff
The message lists the columns; the data owner can add one to the policy.

DPQ205 an argument out of range
The argument has the right kind, but not a value that has a meaning here.
> SELECT DP_COUNT(*, eps=0) FROM staff
Give a value in the range that the message states; a number in GROUP BY or ORDER BY counts the
columns of the result.

DPQ206 an unknown argument
The function has no argument of that name. A name that is not understood is refused and never
passed over, because it may have been meant to limit what is lost.
> SELECT DP_COUNT(*, epsilom=0.5) FROM staff
Use one of the names in the message.

DPQ207 an argument that must be a literal
What a query loses must be known before any row is read, so this argument is a number or text
that stands in the query itself.
> SELECT DP_COUNT(*, eps=0.1 * age) FROM staff
Write the value out: eps=0.1.

DPQ208 types that do not match
The two sides of an operator, or a function and its argument, have types that do not go
together. Nothing is converted without being asked, because a conversion may fail on some rows.
> SELECT DP_COUNT(*, eps=0.5) FROM staff WHERE dept > 3
Compare with a value of the column's own type: dept = 'eng'.

DPQ209 an argument given twice
Two values for one argument: one of them would have to be passed over.
> SELECT DP_COUNT(*, eps=0.5, epsilon=1) FROM staff
Keep one of the two; epsilon is another name for eps.

DPQ210 a literal that cannot be read
The number, date or text is not written in a way that has exactly one meaning.
> SELECT DP_COUNT(*, eps=0.5) FROM staff WHERE hired > DATE '2020-13-01'
Write dates as DATE '2020-01-31', and numbers with at most 38 digits.

DPQ211 a name used twice, or one that could mean two things
Two tables or columns in reach have this name, or two columns of a result would.
> SELECT DP_COUNT(*, eps=0.5) AS n, DP_COUNT(bonus, eps=0.5) AS n FROM staff
Put the table's name before a column, as in staff.person_id, or choose another alias.

DPQ301 a raw column in the result
A result may contain only what DP_ functions release, and columns of GROUP BY. A raw column
would show the values of single people.
> SELECT dept, DP_COUNT(*, eps=0.5) FROM staff
Put the column into a DP_ function; or, where its values are public, group by it: SELECT dept,
DP_COUNT(*, eps=0.5) FROM staff GROUP BY dept.

DPQ302 nothing private is released
The query reads a private table without a DP_ function, or by an aggregate that adds no noise.
An exact count tells whether one person is in the table.
> SELECT COUNT(*) FROM staff
Use the function of the same name with DP_ in front: DP_COUNT(*, eps=0.5).

DPQ303 a DP_ function in the wrong place
DP_ functions stand in the SELECT list, HAVING and ORDER BY of a query over a private table.
Among the rows that they count, as a group, or inside one another, it would not be clear what
they are computed from.
> SELECT DP_COUNT(*, eps=0.5) FROM staff WHERE DP_COUNT(*, eps=0.5) > 10
Give the call a name in the SELECT list, and use that name in HAVING: SELECT DP_COUNT(*,
eps=0.5) AS n FROM staff HAVING n > 10. DP_INTERVAL_LOW(n) takes such a name, too.

DPQ304 a join that is not on the privacy unit
Two private tables are joined where their rows belong to one unit: on the unit's column. Any
other join makes rows that depend on two units at once, and bounding one bounds nothing.
> SELECT DP_COUNT(*, eps=0.5) FROM staff JOIN visits ON staff.age = visits.minutes
Join on the unit, as in ON staff.person_id = visits.person_id, and put the rest into WHERE.

DPQ305 an expression that can fail or overflow
An error that depends on one row would tell whether that row exists. So every expression below
a DP_ function must have a value for every row that the policy allows.
> SELECT DP_COUNT(*, eps=0.5) FROM staff WHERE person_id * person_id * person_id > 10
Use columns whose bounds in the policy leave room, or multiply by 1e0: doubles reach infinity
and do not fail.

DPQ306 a join with a public table that is not on its key
A private row may meet one public row at most, or it would count several times. So the join
equates all columns that the policy declares unique in the public table; and public rows that no
private row meets cannot be kept, because they belong to no unit.
> SELECT DP_COUNT(*, eps=0.5) FROM visits v JOIN regions r ON v.region = r.zone
Join on the unique columns, or ask the data owner to declare what is unique in the table.

DPQ307 rows of one unit that would decide about rows of another
Below the DP_ functions a row depends on the rows of its own unit alone: one unit then changes
its own rows and nothing else. LIMIT, ORDER BY for a choice, DISTINCT, GROUP BY, windows and
subqueries across units break that; with the unit among their keys they do not.
> SELECT DP_COUNT(*, eps=0.5) FROM (SELECT * FROM visits LIMIT 100)
Leave the clause out, or put the unit into it: GROUP BY person_id, PARTITION BY person_id.

DPQ308 units that cannot be compared
Rows of two tables belong to one unit only where the unit's column has the same name and the
same declared type in both: else equal values might stand for different people.
> SELECT DP_COUNT(*, eps=0.5) FROM staff JOIN logins ON staff.person_id = logins.account
Ask the data owner to name and declare the unit's column alike in both tables.

DPQ401 no bounds
The noise is scaled to the largest change that one person can make, and without bounds there is
no largest one. Bounds are never taken from the data as they are, because they would tell about
it.
> SELECT DP_SUM(person_id, eps=0.5) FROM staff
State them in the call: DP_SUM(person_id, eps=0.5, bounds=[0, 1000]). Values outside count as
the nearest bound. The data owner can state bounds of the column in the policy. With
bounds='auto' a fifth of the eps goes to finding them: powers of two between which all but few
values lie. They are kept in the ledger, so that later calls have them free.

DPQ402 groups that are not public
A group in the answer would show that somebody belongs to it. So the groups are known before the
data is read: the keys that the policy lists, the values of a bounded integer or date, true and
false, the values that WHERE names, the results of a CASE, or a function of such values.
> SELECT person_id, DP_COUNT(*, eps=0.5) FROM visits GROUP BY person_id
Name the groups, as in WHERE person_id IN (1, 2), or group by another column. The data owner can
list the keys of a column in the policy. Where the budget has a delta, GROUP BY DP_KEYS(...)
finds the groups that enough units are in.

DPQ403 a delta that is missing, or of no use
Gaussian noise keeps its promise except with probability delta, so it needs one. Other
mechanisms keep it always, and a delta given to them would be passed over.
> SELECT DP_COUNT(*, eps=0.5, mechanism='gaussian') FROM staff
Write both mechanism='gaussian' and delta=1e-7, under a policy whose budget has a delta; or
neither of the two. Under a budget in rho, rho=0.005 in place of eps says it all.

DPQ404 a question that cannot be computed exactly with a stated bound
DISTINCT is for counting: units, or the different values of one expression. And sums must fit
the engine's exact integers for every table.
> SELECT DP_SUM(DISTINCT minutes, eps=0.5) FROM visits
Count values: DP_COUNT(DISTINCT minutes, eps=0.5). For sums, choose narrower bounds.

DPQ405 too many groups
Every group that could be there is in the answer, whether or not rows have it, and there would
be more than a million.
> SELECT salary, dept, DP_COUNT(*, eps=0.5) FROM staff GROUP BY salary, dept
Group by fewer columns, or name the groups: WHERE salary IN (1000, 2000).

DPQ406 a query that is too large
Tables read, subqueries inside one another, rows that unions and joins make of the rows of one
unit, and terms of expressions are limited: a scan that needs much time or memory only if a
certain person is in the data would tell of the person by failing. And a statement draws at most
1,000 values of each group, since each is kept. The message says which number is beyond which
limit.
> SELECT DP_COUNT(*, eps=0.5) FROM visits a JOIN visits b USING (person_id) JOIN visits c
> USING (person_id) JOIN visits d USING (person_id) JOIN visits e USING (person_id) JOIN
> visits f USING (person_id) JOIN visits g USING (person_id) JOIN visits h USING (person_id)
> JOIN visits i USING (person_id) JOIN visits j USING (person_id)
Ask a smaller query: read each table once, make one row of each unit before a join (GROUP BY the
unit), or ask in several queries.

DPQ407 how many rows of one unit count is not stated
Where one person may have many rows, somebody has to say how many of them count: the noise is
scaled to that number, and what a person has beyond it is not counted. No number is taken
without a word, since any could be far too small or far too large.
> SELECT DP_COUNT(DISTINCT minutes, eps=0.5, max_rows_contributed='auto') FROM visits
Have it found for a fifth of the eps, DP_COUNT(*, eps=0.5, max_rows_contributed='auto'), or
state it: max_rows_contributed=5. The data owner can state it in the policy; for one's own files
--rows 5 and --rows auto do, or connect(..., max_rows_contributed="auto"). How many values or
groups of one person count has to be stated: here, max_rows_contributed=3.

DPQ408 the answer could not contain anything
A LIMIT of no rows, an OFFSET past all of them, conditions that no row meets together, a
division by zero, or bounds between which there is one value: whatever is drawn, nothing of it
would be seen, and yet it would be charged.
> SELECT DP_COUNT(*, eps=0.5) FROM staff WHERE age > 30 AND FALSE
Leave that part out. Over public tables alone such questions are answered, and cost nothing.

DPQ409 a result that can be too large
What is computed from released and public rows runs after the charge, so its size is looked at
before: joins that pair every row with every other, and unions of them, have at most ten million
rows, or four times those of the largest public table, and an answer has at most a million. All
texts and lists that a statement makes of others have at most 2^28 characters together.
> WITH n AS (SELECT DP_COUNT(*, eps=1) FROM visits GROUP BY minutes) SELECT 1 FROM n a, n b, n c
Join on a column that both sides have, or make the rows fewer before: GROUP BY, LIMIT. Cut texts
before they are put together: LEFT(dept, 20).

DPQ501 a limit on epsilon would be passed
Policy, analyst and session each have a limit, and all of them hold. What has been spent does
not come back, in this session or a later one. With a delta, epsilons may pass the limit in sum
as long as their rho (epsilon^2 / 2, or / 8 for exponential mechanisms) adds up to less.
> SELECT DP_COUNT(*, eps=1.5) FROM staff
Ask for no more than is left; the message says how much that is. session.ledger() lists
the charges.

DPQ502 the limit for one query would be passed
The policy states how much one statement may spend, whatever is left.
> SELECT DP_COUNT(*, eps=5) FROM staff
Ask for less. A statement is charged the sum of its DP_ functions.

DPQ503 more delta than is left
Policy, analyst and session each have a limit on delta, and all of them hold. Half of each, or
what the policy says, is kept to convert rho, and pays for no query.
> SELECT DP_COUNT(*, eps=0.5, delta=1e-5, mechanism='gaussian') FROM staff
Ask for a smaller delta, or use a mechanism that needs none.

DPQ504 a budget that is frozen
The data owner has stopped all charges, whatever is left. Nothing was read or charged; EXPLAIN,
SHOW and DESCRIBE, and whatever else costs nothing, are answered.
> SELECT DP_COUNT(*, eps=0.5) FROM staff
Wait for the data owner, who ends it with `dpquery ledger thaw POLICY`.

DPQ505 too many statements failed
Whether a statement fails can depend on one person's rows, and no charge pays for what that
tells. So few may fail: `max_failures` under [limits] of the policy, 5 within 24 hours where it
says nothing. A process that is killed after its charge counts as well; stopping a statement
with ctrl-C does not. What fails with values that were released counts too (DPQ702). Then
nothing more is read for the analyst, whatever is left.
> SELECT DP_COUNT(*, eps=0.5) FROM staff
Ask the data owner to find the causes in the log of faults, `<ledger>.faults`, and to run
`dpquery ledger thaw POLICY`, or `--analyst A` with it: failures of before count no more then.

DPQ506 too many statements at a time
Each statement that is under way could fail, so that as many of one analyst are under way as
may still fail. Nothing was read or charged.
> SELECT DP_COUNT(*, eps=0.5) FROM staff
Ask again when another statement has ended; that of a process of another machine that is gone
has ended when its time is over. The data owner can raise `max_failures`.

DPQ601 a file that is missing or cannot be read
The policy file, or a file that it names, is not there, is not of the right format, or may not
be read.
> dpquery polciy.toml -f questions.sql
Check the path. Paths in a policy are relative to the policy file.

DPQ602 a policy that is not TOML
The policy file does not follow the grammar of TOML; the message states the line.
> epsilon = 1.0.0
Mend the line. `dpquery policy init FILE` drafts a policy to start from.

DPQ603 an unknown key in the policy
A key that is not understood is refused and never passed over: it may have been meant to
protect.
> privacy_unit_colum = "person_id"
Use the key that the message names.

DPQ604 a value in the policy that cannot be used
The value has the wrong type, is out of range, or does not go with the column's type.
> bounds = [100, 0]
Give a value as the message describes it; `dpquery policy check FILE` checks the whole file.

DPQ605 a ledger that cannot be trusted
The ledger is damaged, was replaced or rolled back, or others may write to it. Its charges could
be incomplete, so nothing is answered.
> dpquery policy.toml -f questions.sql
For the data owner: `dpquery ledger verify POLICY` says what is wrong. Bring back the last good
copy; do not start an empty ledger over the same data.

DPQ606 a ledger that cannot be written
A charge must be durable before any row is read, so nothing was read and nothing is charged.
> dpquery /mnt/readonly/policy.toml -c "SELECT DP_COUNT(*, eps=0.5) FROM staff"
Free the disk, permit writing, or name another place for the ledger.

DPQ607 a policy that contradicts itself
Two statements of the policy cannot both be meant.
> public = true together with privacy_unit_column = "person_id"
Remove one of the two.

DPQ608 arguments of connect that do not fit
The session cannot be opened with these arguments: a budget is missing, or the analyst is not
one of the policy's.
> dpquery staff.parquet -f questions.sql
Without a policy, state a budget: --epsilon 2. With one, name an analyst that it lists.

DPQ609 a policy that the ledger was not kept for
The policy states other neighbours than the charges in its ledger were made under, or another
unit for a table. Losses of the two cannot be added, so the ledger would say too little.
> neighbours = "substitute" in place of "add-remove"
For the data owner: state it as before. If the change is meant, name another ledger; what
the older ledger shows as spent stays lost.

DPQ610 a grant that is not made
A grant raises one analyst's epsilon and delta, by an amount (--add) or to one (--to), up to
the total of the policy. What was granted is not taken back.
> dpquery ledger grant policy.toml --analyst alice --add 100
Grant less. A total is raised in the policy, where the units' promise stands.

DPQ611 a ledger on a server without its driver
The policy under [ledger] url, or ledger= of connect, names a PostgreSQL server, and the package
that talks to it is not installed. Nothing was read and nothing is charged.
> url = "postgresql://db.example.org/privacy"
Run `pip install 'dpquery[postgres]'`.

DPQ612 files that do not hold what the policy says
A column that the policy declares is missing in a table's files, or has a type that does not
widen to the declared one; in a DuckDB file it may also be computed, or have a collation. Each
of its queries would fail, so that no session is opened. Only names and types of columns were
read, and nothing is charged.
> age = { type = "integer" } for a file in which age is a text
For the data owner: `dpquery policy check FILE` says what differs.

DPQ613 files of a table format
The path names files that Delta Lake, Iceberg, Hudi or DuckLake keep. They can hold rows that
were deleted since: which rows count stands in a log beside them.
> path = "lake/people/*.parquet" beside lake/people/_delta_log
Write the current version of the table to a Parquet file, and name that one.

DPQ614 a ledger that is gone
A ledger was here, as its high-water mark or a file beside it says, and a new one would give
back everything that it has spent. So none is begun, and nothing is answered.
> rm policy.ledger
For the data owner: bring back the newest backup. If there is none and the whole budget may be
spent once more, remove the mark that the message names.

DPQ701 the scan did not finish
The database stopped while reading: files may have changed, and time, memory or disk may have
run out. Its message is kept back because it may quote rows. The charge stays, because part of
the data has been read, and the failure is counted: after a few nothing more is read for the
analyst (DPQ505).
> a Parquet file was replaced, and not published as another version
For the data owner: the log of faults beside the ledger has the cause. `dpquery policy check
FILE` compares files and policy; `dpquery policy publish FILE` says that other files are meant.

DPQ702 finishing ran out of time or memory
The noise has been added, but what the query does with the released values took too long or too
much memory. The charge stays, what was drawn is kept, and the failure is counted, as one of a
scan is (DPQ505): the time and memory that are left can depend on what was read before. So is
one of a repeat, or over public tables, which cost nothing.
> SELECT * FROM noisy AS a, noisy AS b, noisy AS c, noisy AS d
Ask for the DP_ values alone, and do the rest with the answer; that is free.

DPQ801 a session that cannot be used
The session was closed, or the process was forked after it was opened. Two processes must not
share its place in the ledger, or its randomness.
> session.close(); session.sql("SELECT DP_COUNT(*, eps=0.5) FROM staff")
Open a session where it is used. Answers outlive their session.

DPQ802 a stream that has ended
A stream of questions is paid for once, until one count is above its threshold. Another answer
would lose more than was paid for.
> stream.ask("staff", "age > 60"), after a question that was answered with True
Start another stream with session.above_threshold; it has its own price.

DPQ803 a cursor that has nothing to give
The cursor was closed, or no statement was asked before its rows were fetched.
> connection.cursor().fetchall()
Call execute first; open a new cursor where one was closed.

DPQ804 a charge that would be taken back
There are no transactions: an answer that was seen cannot be unseen, so its charge stays.
> connection.rollback()
Leave it out. A statement that is refused costs nothing, and leaves nothing to take back.

DPQ805 a Python value that does not fit
A value for a place in a statement is missing, left over, or of a kind that no literal states
exactly; or a method of the builder was given another thing than it takes.
> cursor.execute("SELECT DP_COUNT(*, eps=?) FROM staff", [float("nan")])
Give one value for each ?, or a dictionary for names; numbers, texts, dates, truth values, None.

DPQ901 a rule of the engine does not hold
A check inside dpquery failed, so nothing is released. This is a mistake in dpquery.
> any query
Report it with the query; the message holds nothing of the data.

DPQ902 the operating system's randomness looks broken
The random bytes fail a test that sound ones pass except with negligible probability. Noise made
from them could be predicted, so nothing is released.
> a virtual machine whose random device returns zeros
Mend the machine; dpquery takes randomness from nowhere else.
"""


def _page(block: str) -> Code:
    head, *body = block.splitlines()
    code, title = head.split(" ", 1)
    shown = [i for i, line in enumerate(body) if line.startswith("> ")]
    example = " ".join(body[i].removeprefix("> ") for i in shown)
    meaning, remedy = " ".join(body[: shown[0]]), " ".join(body[shown[-1] + 1 :])
    return Code(code, title, meaning, example, remedy)


PAGES: tuple[Code, ...] = tuple(_page(block) for block in _TEXT.strip().split("\n\n"))


def explain(topic: str) -> str:
    """Return the page of a code (the number is enough), or of the documentation, as text.

    Raises:
        LookupError: there is neither a code nor a page of that name.
    """
    document = documents().get(topic.strip().lower())
    if document is not None:
        return document.read_text("utf-8").rstrip()
    pages = {page.code: page for page in PAGES}
    wanted = "DPQ" + topic.strip().upper().removeprefix("DPQ")
    if wanted not in pages:
        raise LookupError(
            f"there is no code {topic!r}; the nearest are {_nearest(wanted)}; "
            f"pages are {', '.join(sorted(documents()))}"
        )
    page = pages[wanted]
    parts = [f"{page.code}: {page.title}", _wrap(page.meaning)]
    parts += ["example:\n    " + page.example, _wrap("what to do: " + page.remedy)]
    return "\n\n".join(parts)


def documents() -> dict[str, Path]:
    """Return the pages of the documentation by name; a wheel holds them in the package."""
    package = Path(__file__).resolve().parents[1]
    root = package if (package / "docs").is_dir() else package.parent
    pages = {path.stem.lower(): path for path in (root / "docs").glob("*.md")}
    return pages | {"grammar": root / "grammar" / "dpsql.ebnf"}


def _nearest(wanted: str) -> str:
    digits = "".join(char for char in wanted if char in string.digits)
    number = int(digits[:9] or 0)
    return ", ".join(
        sorted((p.code for p in PAGES), key=lambda c: abs(int(c[3:]) - number))[:3]
    )


def _wrap(text: str) -> str:
    return "\n".join(textwrap.wrap(text, 80, break_long_words=False, break_on_hyphens=False))
