-- Writes catalog.tsv: what Postgres's own catalogue says about the types, operators, functions and casts that a where
-- clause can name. Run by `go generate ./where` against an empty Postgres 15 database, the oldest supported release,
-- whose candidate sets the newer releases keep: psql -XAtqf catalog.sql > catalog.tsv
\pset fieldsep '\t'
SET search_path = pg_catalog;
CREATE FUNCTION pg_temp.key(p pg_proc) RETURNS text LANGUAGE sql AS
$$SELECT CASE WHEN l.lanname = 'internal' THEN p.prosrc ELSE p.proname || '(' || oidvectortypes(p.proargtypes) || ')' END
  FROM pg_language l WHERE l.oid = p.prolang$$;
SELECT 't', oid, typname, typtype, typcategory, typispreferred, typelem, typarray, typcollation <> 0, typsubscript = 'array_subscript_handler'::regproc
  FROM pg_type WHERE typnamespace = 'pg_catalog'::regnamespace AND typtype IN ('b','p','r','m') ORDER BY oid;
SELECT 'r', rngtypid, rngsubtype, rngmultitypid FROM pg_range ORDER BY 1;
SELECT 'c', castsource, casttarget, castcontext, castmethod, coalesce(pg_temp.key(p), '-'), coalesce(pronargs, 0)
  FROM pg_cast LEFT JOIN pg_proc p ON p.oid = castfunc ORDER BY 2, 3;
SELECT 'o', oprname, oprleft, oprright, oprresult, pg_temp.key(p), provolatile, proisstrict
  FROM pg_operator JOIN pg_proc p ON p.oid = oprcode WHERE oprnamespace = 'pg_catalog'::regnamespace ORDER BY oprname, 3, 4;
SELECT 'f', proname, prorettype, array_to_string(proargtypes::oid[], ' '), provariadic, pronargdefaults, prokind, proretset, provolatile, proisstrict, pg_temp.key(p)
  FROM pg_proc p WHERE pronamespace = 'pg_catalog'::regnamespace AND proname IN (
  'lower','upper','length','char_length','character_length','octet_length','bit_length','btrim','ltrim','rtrim','substring','substr','overlay',
  'left','right','position','strpos','starts_with','replace','translate','concat','concat_ws','repeat','reverse','lpad','rpad','split_part',
  'ascii','chr','initcap','md5','encode','decode','to_hex','like','notlike','like_escape','similar_to_escape','regexp_like','textcat',
  'abs','ceil','ceiling','floor','round','trunc','sign','mod','div','power','pow','sqrt','cbrt','exp','ln','log','gcd','lcm','scale','min_scale','trim_scale',
  'date_trunc','date_part','extract','timezone','justify_days','justify_hours','justify_interval','make_date','make_time','make_interval','make_timestamp','isfinite','age','date',
  'array_length','array_ndims','array_lower','array_upper','cardinality','array_position','array_append','array_prepend','array_cat','array_remove','array_replace','array_to_string','string_to_array','array_dims',
  'jsonb_typeof','jsonb_array_length','jsonb_extract_path','jsonb_extract_path_text','json_typeof','json_array_length','json_extract_path','json_extract_path_text','jsonb_exists','jsonb_contains','jsonb_strip_nulls',
  'num_nulls','num_nonnulls','int4','int8','int2','float8','float4','numeric','text','varchar','bpchar','bool','name','interval','timestamp','timestamptz','time','timetz',
  'isempty','lower_inc','upper_inc','lower_inf','upper_inf','range_merge','family','masklen','host','network','netmask','broadcast','hostmask','inet_same_family',
  'overlaps','is_normalized','normalize','sha224','sha256','sha384','sha512','get_bit','get_byte','bit_count','enum_first','width_bucket','factorial','pi','degrees','radians','quote_literal','quote_ident','xmlexists',
  'array_positions','trim_array','array_fill','unnest',
  'to_json','to_jsonb','json_strip_nulls','jsonb_object_keys','jsonb_exists_any','jsonb_exists_all','jsonb_contained','jsonb_concat','jsonb_delete','jsonb_delete_path',
  'jsonb_set','jsonb_insert','jsonb_pretty','jsonb_build_array','jsonb_build_object','jsonb_path_exists','jsonb_path_match','jsonb_object_field','jsonb_object_field_text',
  'abbrev','set_masklen','inet_merge','macaddr8_set7bit','macaddr','macaddr8','cidr','inet',
  'int4range','int8range','numrange','daterange','tsrange','tstzrange','int4multirange','int8multirange','nummultirange','datemultirange','tsmultirange','tstzmultirange','multirange',
  'bit','varbit','pg_lsn','xid','xid8','char',
  'date_bin','to_timestamp','make_timestamptz','quote_nullable','format','regexp_match','regexp_replace','regexp_count','regexp_instr','regexp_substr','to_char','to_date','to_number',
  'set_bit','set_byte','convert_from','convert_to','unistr','to_ascii','sin','cos','tan','asin','acos','atan','atan2')
  ORDER BY proname, 4;
