-- Makes operators and functions in the schema {{schema}} for types that match those of pg_catalog only
-- by a conversion, and for the elements of arrays that a polymorphic function of pg_catalog takes. Each
-- use of one fails. With the schema on the search_path, the server takes one of these wherever a
-- statement leaves it the choice.
DO $hostile$
DECLARE
    kinds regtype[] := '{float8,int4,int8,numeric,text,timestamptz,interval,name,oid,"\"char\"",bool,tid,regclass}';
    lists regtype[] := '{text[],float8[],int4[],timestamptz[],bytea[]}';
    op text; l regtype; r regtype; f record; result text; made int := 0;
BEGIN
    FOREACH l IN ARRAY kinds LOOP
        FOREACH r IN ARRAY kinds LOOP
            EXECUTE format('CREATE FUNCTION {{schema}}.compares(%s, %s) RETURNS bool LANGUAGE plpgsql AS
                $f$ BEGIN RAISE EXCEPTION ''a hostile operator''; END $f$', l, r);
            EXECUTE format('CREATE FUNCTION {{schema}}.computes(%s, %s) RETURNS %s LANGUAGE plpgsql AS
                $f$ BEGIN RAISE EXCEPTION ''a hostile operator''; END $f$', l, r, l);
            FOREACH op IN ARRAY '{+,-,*,/,%,<,<=,>,>=,=,<>,||}'::text[] LOOP
                CONTINUE WHEN EXISTS (SELECT FROM pg_operator WHERE oprnamespace = 'pg_catalog'::regnamespace
                                      AND oprname = op AND oprleft = l AND oprright = r);
                EXECUTE format('CREATE OPERATOR {{schema}}.%s (FUNCTION = {{schema}}.%s, LEFTARG = %s, RIGHTARG = %s)',
                    op, CASE WHEN op ~ '[<>=]' THEN 'compares' ELSE 'computes' END, l, r);
                made := made + 1;
            END LOOP;
        END LOOP;
    END LOOP;
    -- Each function of pg_catalog with one to three arguments, with each of them replaced by another
    -- type of its place.
    FOR f IN SELECT p.proname, p.pronargs, p.proargtypes::oid[] AS args, p.prorettype, p.proretset FROM pg_proc AS p
             WHERE p.pronamespace = 'pg_catalog'::regnamespace AND p.prokind = 'f' AND p.pronargs BETWEEN 1 AND 3 AND p.proname = ANY
                 ('{abs,round,floor,date_part,set_config,current_setting,starts_with,substr,format,encode,decode,float8send,
                    timestamptz_send,pg_relation_size,pg_total_relation_size,pg_partition_tree,string_to_array,unnest,
                    has_schema_privilege,has_table_privilege,has_column_privilege,row_security_active,pg_stat_get_live_tuples,
                    pg_stat_get_dead_tuples,quote_ident,split_part,to_regclass,width_bucket,length,octet_length,left,right,
                    cardinality,array_length,coalesce,nullif,least,greatest,txid_current}')
    LOOP
        FOREACH l IN ARRAY kinds || lists LOOP
            FOR n IN 1 .. f.pronargs LOOP
                result := array_to_string(ARRAY(SELECT CASE WHEN i = n THEN l::text
                                                            WHEN a::regtype::text ~ 'any' THEN CASE WHEN a::regtype::text ~ 'array' THEN 'text[]' ELSE 'text' END
                                                            ELSE a::regtype::text END
                                                FROM unnest(f.args) WITH ORDINALITY AS u (a, i) ORDER BY i), ', ');
                CONTINUE WHEN to_regprocedure(format('pg_catalog.%I(%s)', f.proname, result)) IS NOT NULL
                           OR to_regprocedure(format('{{schema}}.%I(%s)', f.proname, result)) IS NOT NULL;
                EXECUTE format('CREATE FUNCTION {{schema}}.%I(%s) RETURNS text LANGUAGE plpgsql AS
                    $f$ BEGIN RAISE EXCEPTION ''a hostile function''; END $f$', f.proname, result);
                made := made + 1;
            END LOOP;
        END LOOP;
    END LOOP;
    IF made < 1000 THEN
        RAISE EXCEPTION 'the hostile schema has % definitions only', made;
    END IF;
END
$hostile$
