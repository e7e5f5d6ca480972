"""PostgreSQL's functions that ask about the catalogue: macros of the twin, and calls of them.

What they say is true of it: nothing is indexed, restricted, inherited or computed, every table
can be read and none written.
"""

from __future__ import annotations

import re

from sqlglot import exp

from dpquery.server.catalogue.pg_catalog_rows import OWNER, VERSION
from dpquery.server.catalogue.pg_catalog_schema import IN_CATALOGUE, IN_INFORMATION
from dpquery.server.catalogue.refusals import unsupported
from dpquery.server.catalogue.system_views import DATABASE_NAME, LOGIN, SET_NAMES, SET_VALUES

_LIST = re.compile(r"\{(.*)\}", re.DOTALL)
_ITEM = re.compile(r'"((?:[^"\\]|\\.)*)"|([^,"{}]+)')
_MARK = re.compile("(%[sIL])")
_QUOTING = {"%s": "", "%I": "quote_ident", "%L": "quote_literal"}


def macro(name: str, *arguments: exp.Expr) -> exp.Expr:
    """Return a call of one of the twin's macros."""
    return exp.Anonymous(this=name, expressions=[one.copy() for one in arguments])


def as_type(node: exp.Expr, type_: str) -> exp.Expr:
    """Return a cast to a type of DuckDB."""
    return exp.Cast(this=node.copy(), to=exp.DataType.build(type_, dialect="duckdb"))


def number(oid: int) -> exp.Expr:
    """Return the number of something in the catalogue."""
    return as_type(exp.Literal.number(oid), "UINTEGER")


def formatted(node: exp.Format) -> exp.Expr:
    """Return a text with its marks filled in, of which `%s`, `%I` and `%L` are known."""
    form = node.this
    if not isinstance(form, exp.Literal):
        raise unsupported()
    values = iter(node.expressions)
    parts: list[exp.Expr] = []
    for piece in _MARK.split(form.this):
        if piece not in _QUOTING:
            parts.append(exp.Literal.string(piece.replace("%%", "%")))
            continue
        value = next(values, None)
        if value is None:
            raise unsupported()
        text = as_type(value, "VARCHAR")
        quoting = _QUOTING[piece]
        parts.append(macro(quoting, text) if quoting else text)
    return exp.Concat(expressions=parts, safe=True, coalesce=True)


def is_list_text(node: exp.Expr | None) -> bool:
    """Return whether a node is the text of an array."""
    text = isinstance(node, exp.Literal) and node.is_string
    return text and node is not None and _LIST.fullmatch(node.this.strip()) is not None


def list_items(text: str) -> list[str | None]:
    """Return what an array holds that is written as PostgreSQL writes it.

    >>> list_items('{a,"b c",NULL}')
    ['a', 'b c', None]
    """
    found = _LIST.fullmatch(text.strip())
    items: list[str | None] = []
    for quoted, plain in _ITEM.findall(found[1] if found else text):
        if plain:
            items.append(None if plain.strip().upper() == "NULL" else plain.strip())
        else:
            items.append(re.sub(r"\\(.)", r"\1", quoted))
    return items


def list_of(node: exp.Expr) -> exp.Expr:
    """Return a list for its text."""
    items = list_items(node.this)
    return exp.Array(
        expressions=[exp.null() if one is None else exp.Literal.string(one) for one in items]
    )


_OWN_NAME = """replace(regexp_replace(a, '^.*[.]', ''), '"', '')"""
_KEY, _VALUE = '"dp key"', '"dp value"'
"""An argument stands in a macro as it was written: no column of a client has such a name."""


def _found(relation: str, key: str, value: str, where: str) -> str:
    """Write a query for one value in a relation."""
    rows = f"SELECT {key} AS {_KEY}, {value} AS {_VALUE} FROM {relation}"
    return f"(SELECT max({_VALUE}) FROM ({rows}) AS dp WHERE {where})"


def _lookup(relation: str, key: str, value: str, where: str, listed: str = "a") -> str:
    """Write a macro that finds one."""
    return f"({listed}) AS {_found(relation, key, value, where)}"


def _number_of(relation: str, name: str) -> str:
    return _lookup(relation, name, "oid", f"{_KEY} = {_OWN_NAME}")


def _name_of(relation: str, name: str) -> str:
    return _lookup(relation, "oid", name, f"{_KEY} = a")


_MAY = "regexp_matches(lower({}), 'select|usage|connect|execute|member|set')"
"""Of privileges, the ones that everybody has."""
_TEXT, _SIZE = "CAST(NULL AS VARCHAR)", "CAST(NULL AS BIGINT)"


def _all(body: str, *arguments: str) -> str:
    """Write one macro for several lists of arguments."""
    return ", ".join(f"({listed}) AS {body}" for listed in arguments)


_ONE, _TWO, _THREE, _FOUR = "a", "a, b", "a, b, c", "a, b, c, d"
_UNKNOWN_TEXTS = {
    "pg_get_expr": (_TWO, _THREE),
    "pg_get_constraintdef": (_ONE, _TWO),
    "pg_get_indexdef": (_ONE, _THREE),
    "pg_get_viewdef": (_ONE, _TWO),
    "pg_get_ruledef": (_ONE, _TWO),
    "pg_get_triggerdef": (_ONE, _TWO),
    "pg_get_partkeydef": (_ONE,),
    "pg_get_partition_constraintdef": (_ONE,),
    "pg_get_statisticsobjdef": (_ONE,),
    "pg_get_statisticsobjdef_columns": (_ONE,),
    "pg_get_serial_sequence": (_TWO,),
    "pg_get_function_identity_arguments": (_ONE,),
    "pg_get_function_arg_default": (_TWO,),
    "pg_get_function_arguments": (_ONE,),
    "pg_get_function_result": (_ONE,),
    "pg_get_function_sqlbody": (_ONE,),
    "pg_get_functiondef": (_ONE,),
    "pg_describe_object": (_THREE,),
    "pg_indexam_has_property": (_TWO,),
    "pg_index_column_has_property": (_THREE,),
    "pg_tablespace_location": (_ONE,),
    "pg_relation_filepath": (_ONE,),
    "inet_client_addr": ("",),
    "inet_server_addr": ("",),
    "shobj_description": (_TWO,),
    "pg_export_snapshot": ("",),
}
_SIZES = (
    "pg_total_relation_size",
    "pg_relation_size",
    "pg_table_size",
    "pg_indexes_size",
    "pg_database_size",
    "pg_tablespace_size",
    "pg_stat_get_numscans",
    "pg_sequence_last_value",
)
_VISIBLE = """
    type function operator opclass opfamily collation conversion statistics_obj ts_config
    ts_dict ts_parser ts_template
"""
_PRIVILEGED = """
    table schema database sequence function type tablespace language server parameter any_column
    foreign_data_wrapper
"""
_MODIFIED = f"""CASE
    WHEN o = 1700 AND coalesce(m, -1) >= 4
    THEN {_VALUE} || '(' || ((m - 4) >> 16) || ',' || ((m - 4) & 65535) || ')'
    WHEN o IN (1042, 1043) AND coalesce(m, -1) >= 4
    THEN {_VALUE} || '(' || (m - 4) || ')'
    ELSE {_VALUE} END"""
_TYPE_NAMES = f"SELECT oid AS {_KEY}, sql AS {_VALUE} FROM pgc.sql_names"
_OUT_OF_PATH = ", ".join(str(one.oid) for one in IN_INFORMATION.values())
_CLASS = IN_CATALOGUE["pg_class"].oid


def _comment(number: str, listed: str) -> str:
    """Write a macro that finds the comment on a relation or on one of its columns."""
    rows = (
        f'SELECT objoid AS {_KEY}, objsubid AS {_VALUE}, description AS "dp text"'
        f" FROM pgc.pg_description WHERE classoid = {_CLASS}"
    )
    found = f"{_KEY} = a AND {_VALUE} = {number}"
    return f'({listed}) AS (SELECT max("dp text") FROM ({rows}) AS dp WHERE {found})'


_SET = (
    f"(getvariable('{SET_VALUES}')::VARCHAR[])"
    f"[list_position(getvariable('{SET_NAMES}')::VARCHAR[], lower(a))]"
)
_SETTING = _found("pgc.pg_settings", "lower(name)", "setting", f"{_KEY} = lower(a)")
MACROS: dict[str, str] = {
    # The session.
    "current_user": f"() AS getvariable('{LOGIN}')::VARCHAR",
    "session_user": f"() AS getvariable('{LOGIN}')::VARCHAR",
    "current_database": f"() AS getvariable('{DATABASE_NAME}')::VARCHAR",
    "current_schema": "() AS 'public'",
    "current_schemas": "(a) AS CASE WHEN a THEN ['pg_catalog', 'public'] ELSE ['public'] END",
    "version": f"() AS 'PostgreSQL {VERSION} (dpquery)'",
    "current_setting": _all(f"coalesce({_SET}, {_SETTING})", _ONE, _TWO),
    "set_config": "(a, b, c) AS b",
    "pg_backend_pid": "() AS 0",
    "pg_advisory_unlock_all": "() AS ''",
    "pg_my_temp_schema": "() AS CAST(0 AS UINTEGER)",
    "pg_is_in_recovery": "() AS false",
    "pg_is_wal_replay_paused": "() AS false",
    "pg_is_other_temp_schema": "(a) AS false",
    "pg_postmaster_start_time": "() AS now()",
    "pg_conf_load_time": "() AS now()",
    "pg_client_encoding": "() AS 'UTF8'",
    "getdatabaseencoding": "() AS 'UTF8'",
    "clock_timestamp": "() AS now()",
    "statement_timestamp": "() AS now()",
    "txid_current": "() AS CAST(1 AS BIGINT)",
    "pg_current_xact_id": "() AS CAST(1 AS BIGINT)",
    "inet_server_port": "() AS 5432",
    "inet_client_port": "() AS 0",
    # Names and numbers.
    "pg_get_userbyid": f"(a) AS CASE WHEN a = 10 THEN '{OWNER}' ELSE current_user() END",
    "format_type": f"(o, m) AS (SELECT max({_MODIFIED}) FROM ({_TYPE_NAMES}) AS dp"
    f" WHERE {_KEY} = o)",
    "regclass_in": _number_of("pgc.pg_class", "relname"),
    "regclass_out": _name_of("pgc.pg_class", "relname"),
    "regnamespace_in": _number_of("pgc.pg_namespace", "nspname"),
    "regnamespace_out": _name_of("pgc.pg_namespace", "nspname"),
    "regrole_in": _number_of("pgc.pg_roles", "rolname"),
    "regrole_out": "(a) AS pg_get_userbyid(a)",
    "regproc_number": _number_of("pgc.pg_proc", "proname"),
    "regproc_oid": "(a) AS coalesce(regproc_number(a), CAST(0 AS UINTEGER))",
    "regproc_name": "(a) AS a",
    "regproc_out": _name_of("pgc.pg_proc", "proname"),
    "regtype_named": _number_of("pgc.pg_type", "typname"),
    "regtype_written": _lookup("pgc.sql_names", "sql", "oid", f"{_KEY} = lower(a)"),
    "regtype_in": "(a) AS coalesce(regtype_named(a), regtype_written(a))",
    "regtype_out": "(a) AS format_type(a, NULL)",
    "to_regclass": "(a) AS regclass_in(a)",
    "to_regtype": "(a) AS regtype_in(a)",
    "to_regnamespace": "(a) AS regnamespace_in(a)",
    "to_regrole": "(a) AS regrole_in(a)",
    "to_regproc": "(a) AS regproc_oid(a)",
    "quote_ident": "(a) AS CASE WHEN regexp_full_match(a, '[a-z_][a-z0-9_]*') THEN a"
    """ ELSE '"' || replace(a, '"', '""') || '"' END""",
    "quote_literal": """(a) AS '''' || replace(a, '''', '''''') || ''''""",
    "obj_description": ", ".join(_comment("0", listed) for listed in (_ONE, _TWO)),
    "col_description": _comment("b", _TWO),
    # What anybody may.
    **{f"pg_{name}_is_visible": "(a) AS true" for name in _VISIBLE.split()},
    "pg_table_is_visible": f"(a) AS a NOT IN ({_OUT_OF_PATH})",
    **{
        f"has_{name}_privilege": f"(a, b) AS {_MAY.format('b')},"
        f" (a, b, c) AS {_MAY.format('c')}"
        for name in _PRIVILEGED.split()
    },
    "has_column_privilege": f"(a, b, c) AS {_MAY.format('c')},"
    f" (a, b, c, d) AS {_MAY.format('d')}",
    "pg_has_role": _all("true", _TWO, _THREE),
    "row_security_active": "(a) AS false",
    "acldefault": "(a, b) AS CAST([] AS VARCHAR[])",
    "pg_relation_is_updatable": "(a, b) AS 0",
    "pg_column_is_updatable": "(a, b, c) AS false",
    "pg_relation_is_publishable": "(a) AS false",
    # What there is none of.
    **{name: _all(_TEXT, *arguments) for name, arguments in _UNKNOWN_TEXTS.items()},
    **{name: _all(_SIZE, _ONE, _TWO) for name in _SIZES},
    "pg_size_pretty": "(a) AS CAST(a AS VARCHAR) || ' bytes'",
    "pg_encoding_to_char": "(a) AS 'UTF8'",
    "pg_char_to_encoding": "(a) AS 6",
    "pg_encoding_max_length": "(a) AS 4",
    "pg_blocking_pids": "(a) AS CAST([] AS INTEGER[])",
    "array_upper": "(a, n) AS nullif(len(a), 0)",
    "array_lower": "(a, n) AS CASE WHEN len(a) > 0 THEN 1 END",
    "array_ndims": "(a) AS CASE WHEN len(a) > 0 THEN 1 END",
    "generate_subscripts": "(a, n) AS unnest(range(1, len(a) + 1))",
    "pg_expandarray": "(a) AS unnest(list_transform(a, lambda v, i: {'x': v, 'n': i}))",
    "aclexplode": "(a) AS unnest(CAST([] AS STRUCT("
    "grantor UINTEGER, grantee UINTEGER, privilege_type VARCHAR, is_grantable BOOLEAN)[]))",
}
"""By name: its lists of arguments, each with what it stands for."""

SETS: dict[str, str] = {
    "pg_get_keywords": "SELECT keyword_name AS word, CASE keyword_category"
    " WHEN 'reserved' THEN 'R' WHEN 'unreserved' THEN 'U' WHEN 'column_name' THEN 'C'"
    " ELSE 'T' END AS catcode, keyword_category AS catdesc FROM duckdb_keywords()",
    "pg_options_to_table": "SELECT '' AS option_name, '' AS option_value WHERE false",
    "pg_show_all_settings": "SELECT * FROM pgc.pg_settings",
    "pg_timezone_names": "SELECT 'UTC' AS name, 'UTC' AS abbrev,"
    " INTERVAL 0 SECOND AS utc_offset, false AS is_dst",
    "pg_available_extensions": "SELECT * FROM pgc.pg_available_extensions",
    "pg_get_publication_tables": "SELECT CAST(0 AS UINTEGER) AS relid WHERE false",
    "pg_partition_ancestors": "SELECT CAST(0 AS UINTEGER) AS relid WHERE false",
    "pg_partition_tree": "SELECT CAST(0 AS UINTEGER) AS relid WHERE false",
    "aclexplode": "SELECT CAST(0 AS UINTEGER) AS grantor, CAST(0 AS UINTEGER) AS grantee,"
    " '' AS privilege_type, false AS is_grantable WHERE false",
    "pg_lock_status": "SELECT * FROM pgc.pg_locks",
    "pg_stat_get_activity": "SELECT * FROM pgc.pg_stat_activity",
}
"""Functions that stand where a table does: what is there instead, whatever they are given."""


def macros() -> list[str]:
    """Return the statements that make the macros."""
    return [f"CREATE MACRO {name} {text}" for name, text in MACROS.items()]
