-- What the database says about HTTP requests: who may make them, and where they may go. The requests are the engine's.

-- The functions whose EXECUTE privilege is the right to make requests, by the kind of request.
CREATE OR REPLACE FUNCTION df._http_function(kind text) RETURNS text
LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE kind WHEN 'http' THEN 'df.http(text,text,text,jsonb,integer)'
                     WHEN 'http_multipart' THEN 'df.http_multipart(text,text,jsonb,jsonb,integer)' END
$$;

-- Whether the current role may make such a request now: the graph may be older than the revocation, or never have seen the function.
CREATE OR REPLACE FUNCTION df._may_call(kind text) RETURNS boolean
LANGUAGE sql STABLE AS $$
    SELECT coalesce(has_function_privilege(to_regprocedure(df._http_function(kind)), 'EXECUTE'), false)
           OR (SELECT r.rolsuper FROM pg_roles r WHERE r.rolname = current_user)
$$;

-- Everything an engine asks before a request, in one look.
CREATE OR REPLACE FUNCTION df._http_gate(kind text, OUT allowed boolean, OUT role text, OUT function text, OUT allow jsonb, OUT deny jsonb)
LANGUAGE sql STABLE AS $$
    SELECT df._may_call(kind), current_user::text, df._http_function(kind), df._setting('http_allow'), df._setting('http_deny')
$$;

-- A list of destinations, or an error that names the entry which is none.
CREATE OR REPLACE FUNCTION df._check_destinations(setting text, value jsonb) RETURNS void
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    entry jsonb;
BEGIN
    IF jsonb_typeof(value) <> 'array' THEN
        RAISE EXCEPTION 'setting "%" takes an array and not %', setting, value USING ERRCODE = '22023',
            HINT = 'Entries are host names ("api.example.com"), a name with all below it (".example.com"), addresses and ranges ("10.0.0.0/8").';
    END IF;
    FOR entry IN SELECT jsonb_array_elements(value) LOOP
        IF jsonb_typeof(entry) <> 'string' OR NOT df._is_destination(entry #>> '{}') THEN
            RAISE EXCEPTION 'setting "%": % is no host, address or range; nothing was changed', setting, entry USING ERRCODE = '22023',
                HINT = 'Write "api.example.com", ".example.com" (the name and all below it), "127.0.0.1", "10.0.0.0/8" or "fd00::/8": no scheme, no port, no "*".';
        END IF;
    END LOOP;
END $$;

-- A name whose last label is not a number, or an address, with or without the length of a range's prefix.
CREATE OR REPLACE FUNCTION df._is_destination(entry text) RETURNS boolean
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    IF entry ~ '^(\d+\.\d+\.\d+\.\d+|[0-9a-fA-F.]*:[0-9a-fA-F:.]*)(/\d+)?$' THEN
        RETURN entry::inet IS NOT NULL;
    END IF;
    RETURN entry ~ '^\.?[^\s/:@*.,?#"\[\]]+(\.[^\s/:@*.,?#"\[\]]+)*$' AND entry !~ '(^|\.)[0-9]+$';
EXCEPTION WHEN invalid_text_representation THEN
    RETURN false;
END $$;
