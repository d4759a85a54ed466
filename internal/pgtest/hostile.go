package pgtest

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
)

// Hostile makes a schema whose operators, functions and types have the names of those in
// pg_catalog, and returns it for the head of a search_path. Every use of one fails, so a
// statement that works with this search_path qualifies all of its names. The schema is dropped
// at the end of t.
func Hostile(t testing.TB) (schema string) {
	t.Helper()
	schema = Schema(t)
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, URL(t))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(ctx) }()
	run := func(sql string) {
		if _, err := conn.Exec(ctx, sql); err != nil {
			t.Fatalf("%v, for %s", err, sql)
		}
	}
	run("CREATE SCHEMA " + schema)
	const types = `'{float8,int4,int8,text,timestamptz,interval,tid,bool,bytea,regclass,jsonb,oid,name,"\"char\""}'::regtype[]`
	rows, err := conn.Query(ctx, `SELECT format('CREATE FUNCTION `+schema+`.%I(%s) RETURNS %s LANGUAGE plpgsql AS
			$$ BEGIN RAISE EXCEPTION ''a hostile operator %s''; END $$;
			CREATE OPERATOR `+schema+`.%s (FUNCTION = `+schema+`.%I, %s RIGHTARG = %s)',
			'operator' || oid, concat_ws(', ', NULLIF(oprleft, 0)::regtype, oprright::regtype), oprresult::regtype,
			replace(oprname, '%', '%%'), oprname, 'operator' || oid,
			CASE WHEN oprleft <> 0 THEN 'LEFTARG = ' || oprleft::regtype || ',' END, oprright::regtype)
		FROM pg_catalog.pg_operator
		WHERE oprnamespace = 'pg_catalog'::regnamespace AND (oprleft = 0 OR oprleft = ANY (`+types+`)) AND oprright = ANY (`+types+`)
			AND oprname <> '=>'
		UNION ALL
		SELECT format('CREATE FUNCTION `+schema+`.%I(%s) RETURNS %s LANGUAGE plpgsql AS
			$$ BEGIN RAISE EXCEPTION ''a hostile function %s''; END $$',
			proname, pg_get_function_identity_arguments(oid), pg_get_function_result(oid), proname)
		FROM pg_catalog.pg_proc
		WHERE pronamespace = 'pg_catalog'::regnamespace AND prokind = 'f'
			AND '"any"'::regtype <> ALL (proargtypes) AND proname = ANY
			('{round,date_part,set_config,current_setting,clock_timestamp,statement_timestamp,starts_with,substr,format,
			pg_relation_size,pg_total_relation_size,string_to_array,now,unnest,pg_backend_pid,pg_is_in_recovery,
			has_schema_privilege,has_table_privilege,pg_stat_get_live_tuples,pg_stat_get_dead_tuples,current_database,
			pg_advisory_lock,pg_try_advisory_lock,pg_advisory_unlock}')`)
	if err != nil {
		t.Fatal(err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range strings.Fields("text float8 timestamptz int4 int8 bytea jsonb tid regclass bool") {
		list = append(list, fmt.Sprintf("CREATE TYPE %s.%s AS ENUM ('a hostile type')", schema, name))
	}
	if len(list) < 150 {
		t.Fatalf("the hostile schema has %d definitions only", len(list))
	}
	list = append(list, "CREATE FUNCTION "+schema+`.format(text, bigint) RETURNS text LANGUAGE plpgsql AS
		$$ BEGIN RAISE EXCEPTION 'a hostile function format'; END $$`)
	run("BEGIN")
	for _, sql := range list {
		run(sql)
	}
	run("COMMIT")
	return schema
}
