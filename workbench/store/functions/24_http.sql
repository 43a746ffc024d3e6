-- Building HTTP steps; and what can be said of a request before it is made, in the words of workbench/graph/configs.py.
-- The two signatures are fixed: privileges are granted on them. Whatever they cannot say comes by df.with_http.

CREATE OR REPLACE FUNCTION df.http(
    url text, method text DEFAULT 'POST', body text DEFAULT NULL, headers jsonb DEFAULT NULL, timeout_seconds integer DEFAULT 30
) RETURNS text LANGUAGE sql VOLATILE AS $$
    SELECT coalesce(
        df._refuse(df._request_fault('HTTP', url, method, headers, timeout_seconds)),
        '{"node_type":"HTTP","query":' || to_json('{"url":' || to_json(url) || ',"method":"' || upper(method)
        || '","body":' || coalesce(to_json(body)::text, 'null') || ',"headers":' || df._compact(coalesce(headers, 'null')::json)
        || ',"timeout_seconds":' || timeout_seconds || '}') || '}')
$$;

CREATE OR REPLACE FUNCTION df.http_multipart(
    url text, method text DEFAULT 'POST', parts jsonb DEFAULT NULL, headers jsonb DEFAULT NULL, timeout_seconds integer DEFAULT 30
) RETURNS text LANGUAGE sql VOLATILE AS $$
    SELECT coalesce(
        df._refuse(coalesce(df._request_fault('HTTP_MULTIPART', url, method, headers, timeout_seconds), df._parts_fault(parts))),
        '{"node_type":"HTTP_MULTIPART","query":' || to_json('{"url":' || to_json(url) || ',"method":"' || upper(method)
        || '","parts":' || df._compact(parts::json) || ',"headers":' || df._compact(coalesce(headers, 'null')::json)
        || ',"timeout_seconds":' || timeout_seconds || '}') || '}')
$$;

-- An HTTP step with options: {"retry_statuses": [429], "raise_for_status": true, "sink": "schema.table(column)"}. Later ones replace earlier ones.
CREATE OR REPLACE FUNCTION df.with_http(fut text, options jsonb) RETURNS text
LANGUAGE plpgsql VOLATILE STRICT AS $$
DECLARE
    graph text := df._step(fut);
    kind text := graph::json ->> 'node_type';
    fault text;
    merged jsonb;
BEGIN
    fault := CASE
        WHEN kind NOT IN ('HTTP', 'HTTP_MULTIPART') THEN format('only HTTP and HTTP_MULTIPART nodes have these options, not %s', kind)
        WHEN jsonb_typeof(options) <> 'object' THEN format('options must be a JSON object, not %s', jsonb_typeof(options))
        ELSE df._options_fault(kind, options) END;
    PERFORM df._refuse('df.with_http: ' || fault);
    merged := coalesce((graph::jsonb -> 'options'), '{}') || options;
    RETURN df._with_key(graph, 'options', (
        SELECT '{' || string_agg(to_json(o.key) || ':' || df._compact(o.value::json), ',' ORDER BY o.n) || '}'
        FROM jsonb_each(merged) WITH ORDINALITY AS o (key, value, n) WHERE o.value NOT IN ('false', '[]')));
END $$;

-- What is wrong with the arguments of a constructor, where NULL is a fault of its own.
CREATE OR REPLACE FUNCTION df._request_fault(kind text, url text, method text, headers jsonb, timeout_seconds integer) RETURNS text
LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE
        WHEN url IS NULL THEN 'url is required and cannot be NULL'
        ELSE df._http_fault(kind, jsonb_build_object('url', url, 'method', coalesce(method, 'NULL'), 'headers', headers,
                                                     'timeout_seconds', coalesce(timeout_seconds, 0))) END
$$;

CREATE OR REPLACE FUNCTION df._http_fault(kind text, config jsonb) RETURNS text
LANGUAGE sql IMMUTABLE AS $$
    SELECT coalesce(
        df._method_fault(kind, config -> 'method'),
        df._timeout_fault(config -> 'timeout_seconds'),
        CASE WHEN jsonb_typeof(config -> 'url') = 'string' THEN df._url_fault(config ->> 'url')
             ELSE format('url in %s must be text, not %s', kind, jsonb_typeof(config -> 'url')) END,
        df._headers_fault(config -> 'headers'),
        CASE WHEN kind = 'HTTP_MULTIPART' AND config ? 'parts' THEN df._parts_fault(config -> 'parts')
             WHEN jsonb_typeof(config -> 'body') NOT IN ('string', 'null') THEN
                 'body in HTTP must be text, not ' || jsonb_typeof(config -> 'body') END)
$$;

CREATE OR REPLACE FUNCTION df._method_fault(kind text, method jsonb) RETURNS text
LANGUAGE sql IMMUTABLE AS $$
    SELECT format(CASE kind WHEN 'HTTP' THEN 'Invalid HTTP method: %s. Must be GET, POST, PUT, DELETE, or PATCH'
                            ELSE 'Invalid HTTP method for multipart: %s. Must be POST, PUT, or PATCH' END,
                  left(CASE jsonb_typeof(method) WHEN 'string' THEN method #>> '{}' ELSE method::text END, 100))
    WHERE jsonb_typeof(method) <> 'string'
       OR upper(method #>> '{}') <> ALL (CASE kind WHEN 'HTTP' THEN '{GET,POST,PUT,DELETE,PATCH}' ELSE '{POST,PUT,PATCH}' END::text[])
$$;

-- A null is as good as an absent key.
CREATE OR REPLACE FUNCTION df._timeout_fault(timeout jsonb) RETURNS text
LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE
        WHEN jsonb_typeof(timeout) <> 'number' OR (timeout #>> '{}')::numeric > 2147483647 THEN
            'Timeout must be a number of seconds up to 2147483647, not ' || left(timeout::text, 100)
        WHEN (timeout #>> '{}')::numeric <= 0 THEN 'Timeout must be positive'
    END WHERE jsonb_typeof(timeout) <> 'null'
$$;

-- Where a variable or a secret may hold the scheme, it is looked at when the request is made.
CREATE OR REPLACE FUNCTION df._url_fault(url text) RETURNS text
LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE
        WHEN scheme ~* '^https?$' THEN format('Invalid URL ''%s'': it names no host; write https://host/path', left(url, 100))
        ELSE format('Blocked: unsupported URL scheme ''%s''. Only http and https are allowed.', left(scheme, 100)) END
    FROM (SELECT coalesce(substring(url FROM '^([A-Za-z][A-Za-z0-9+.-]*):'), '') AS scheme) AS s
    WHERE strpos(url, '{') = 0 AND url !~* '^https?://[^/?# \t\n\r\f\v]'
$$;

CREATE OR REPLACE FUNCTION df._headers_fault(headers jsonb) RETURNS text
LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE
        WHEN jsonb_typeof(headers) <> 'object' THEN 'headers must be a JSON object of names and texts, not ' || jsonb_typeof(headers)
        ELSE (
            SELECT f.fault FROM jsonb_each(headers) WITH ORDINALITY AS h (name, value, n) CROSS JOIN LATERAL (
                SELECT CASE
                    WHEN h.name !~ '^[A-Za-z0-9!#$%&''*+.^_`|~-]+$' THEN
                        format('header ''%s'' has no valid name; use letters, digits and hyphens', left(h.name, 100))
                    WHEN jsonb_typeof(h.value) <> 'string' THEN
                        format('header ''%s'' must be text, not %s; write it in quotes', left(h.name, 100), jsonb_typeof(h.value))
                    WHEN h.value #>> '{}' ~ '[\r\n]' THEN format('header ''%s'' contains a line break; remove it', left(h.name, 100))
                END) AS f (fault)
            WHERE f.fault IS NOT NULL ORDER BY h.n LIMIT 1)
    END WHERE jsonb_typeof(headers) <> 'null'
$$;

-- The shape of each part is checked when the request is made.
CREATE OR REPLACE FUNCTION df._parts_fault(parts jsonb) RETURNS text
LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE
        WHEN coalesce(jsonb_typeof(parts), 'null') = 'null' THEN 'parts is required and cannot be NULL'
        WHEN jsonb_typeof(parts) <> 'array' THEN 'parts must be a JSON array of part objects'
        WHEN parts = '[]' THEN 'parts must contain at least one part'
    END
$$;
