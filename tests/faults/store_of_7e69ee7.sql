INSERT INTO checkpoints (id, workspace, project_id, checkpoint_type, started_at, finished_at, report) VALUES
    ('bc641286-2b33-4099-85b0-f104693877e0', 'default', NULL, 'manual', '2026-01-15 12:00:00+00', '2026-01-15 12:00:00+00', '{"dead": 0, "error": null, "joined": 2, "founded": 3, "embedded": 5, "abandoned": 0, "truncated": 0, "project_id": null, "started_at": "2026-01-15T12:00:00Z", "finished_at": "2026-01-15T12:00:00Z", "dead_entries": [], "distillation": null, "checkpoint_id": "bc641286-2b33-4099-85b0-f104693877e0", "checkpoint_type": "manual"}');
INSERT INTO contexts (id, workspace, project_id, task_id, run_id, agent_type, pattern_ids, created_at, entry_ids) VALUES
    ('870f2da0-cb6c-486b-a0f3-563706c8a688', 'default', 'web-shop', 'T-5', '9', 'backend', '{86f41581-1c3f-57ac-8256-f6f827e009b5}', '2026-01-15 12:00:00+00', '{73359114-59f0-45c8-876b-718ebfa25224,a0363de1-373e-463f-b65c-0f2232c4f3ae}');
INSERT INTO patterns (id, workspace, entry_type, match_key, founding_entry_id, success_count, attempt_count, project_count, founded_at) VALUES
    ('85e87667-b322-576d-bb9b-0cb6a59ec24f', 'default', 'gate_rejection', '4d6c91c136ecb5548d77cc6cf0504e8b4094a5f1220e9e6d13d170d32c6ee2a1', 'ded0c07f-c6ae-41d0-b63b-7a22f15dc919', 1, 1, 1, '2026-01-15 12:00:00+00'),
    ('cef6ba14-29a2-5327-835b-d6b26d450194', 'default', 'failure_solution', '10ed4e764165469696cf3e98f322f11fb682b44f925cf537a7b03d3b57dca338', 'e11e256d-e181-4a48-9c8f-8d26ecdd2b04', 2, 2, 2, '2026-01-15 12:00:00+00'),
    ('86f41581-1c3f-57ac-8256-f6f827e009b5', 'default', 'failure_solution', '3b972005e9bdff5a4696929ec089b4feed6edf4980b8e69783d9d2a440bb2215', '73359114-59f0-45c8-876b-718ebfa25224', 2, 3, 2, '2026-01-15 12:00:00+00');
INSERT INTO projects (workspace, project_id, created_at) VALUES
    ('default', 'web-shop', '2026-11-27 09:35:37.500619+00'),
    ('default', 'app', '2026-11-27 09:35:37.540643+00');
INSERT INTO knowledge_staging (id, workspace, project_id, entry_type, agent_type, task_type, technology, task_description, failure_description, error_message, solution_steps, gate_type, proposal, human_feedback, revision_approach, approved_approach, when_to_try, success_verified, verified_by, task_id, run_id, idempotency_key, content_hash, "timestamp", status, attempts, lease_token, lease_until, dead_reason, pattern_id, point_ids, embedded_at, expires_at, applies_when, captured_by, resolved_by, low_trust, suspicions, agent_key) VALUES
    ('a57317b5-ee16-4841-8133-54322460d399', 'default', 'web-shop', 'failure_solution', 'backend', 'bugfix', 'python', NULL, 'Nobody solved this', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, false, NULL, 'T-9', NULL, NULL, '7d3e3a3503db513932c986705e71bea2aac6ae46d8cf3000f50b2a3db23158f1', '2026-01-15 12:00:00+00', 'open', 0, NULL, NULL, NULL, NULL, '{}', NULL, NULL, NULL, NULL, NULL, false, '{}', NULL),
    ('73359114-59f0-45c8-876b-718ebfa25224', 'default', 'web-shop', 'failure_solution', 'backend', 'bugfix', 'python', NULL, 'Cart total is wrong when an item has no price', NULL, 'Treat a missing price as zero', NULL, NULL, NULL, NULL, NULL, NULL, true, 'pytest', 'T-0', '1', NULL, 'd03bf8e24b074d83a0980d0a749b1fa21165589fd11fe39fb467906240d4ded5', '2026-01-15 12:00:00+00', 'embedded', 1, NULL, NULL, NULL, '86f41581-1c3f-57ac-8256-f6f827e009b5', '{12bd914f-8d73-51be-aedd-127f9d0c1d04}', '2026-01-15 12:00:00+00', '2027-01-15 12:00:00+00', NULL, NULL, NULL, false, '{}', NULL),
    ('e11e256d-e181-4a48-9c8f-8d26ecdd2b04', 'default', 'app', 'failure_solution', 'backend', 'bugfix', 'python', NULL, 'The search index is stale after a deploy', NULL, 'Rebuild it in the release step', NULL, NULL, NULL, NULL, NULL, NULL, true, 'pytest', 'T-1', '2', NULL, '169af5b5830caa66eb07a8e5640bfe8ae09bdbd273d0cd1a06430429f5f39f94', '2026-01-15 12:00:00+00', 'embedded', 1, NULL, NULL, NULL, 'cef6ba14-29a2-5327-835b-d6b26d450194', '{45bae97e-9f15-58ab-923b-990a5474fbb2}', '2026-01-15 12:00:00+00', '2027-01-15 12:00:00+00', NULL, NULL, NULL, false, '{}', NULL),
    ('ded0c07f-c6ae-41d0-b63b-7a22f15dc919', 'default', 'web-shop', 'gate_rejection', NULL, NULL, NULL, NULL, NULL, NULL, NULL, 'design_review', 'Rename the orders table in place', 'There is no migration plan', 'Expand, migrate, contract', NULL, NULL, false, NULL, NULL, NULL, NULL, 'f93582cc600f040e87914fb0abefb1d5ccb09833a930c37e3c4c3ce5eb8ecf0e', '2026-01-15 12:00:00+00', 'embedded', 1, NULL, NULL, NULL, '85e87667-b322-576d-bb9b-0cb6a59ec24f', '{5c363f23-9e83-5c6b-ab5b-b681c6be3cba}', '2026-01-15 12:00:00+00', '2027-01-15 12:00:00+00', NULL, NULL, NULL, false, '{}', NULL),
    ('a0363de1-373e-463f-b65c-0f2232c4f3ae', 'default', 'app', 'failure_solution', 'backend', 'bugfix', 'python', NULL, 'Cart total is wrong when an item has no price', NULL, 'Treat a missing price as zero', NULL, NULL, NULL, NULL, NULL, NULL, true, 'pytest', 'T-0', '2', NULL, 'd03bf8e24b074d83a0980d0a749b1fa21165589fd11fe39fb467906240d4ded5', '2026-01-15 12:00:00+00', 'embedded', 1, NULL, NULL, NULL, '86f41581-1c3f-57ac-8256-f6f827e009b5', '{12bd914f-8d73-51be-aedd-127f9d0c1d04}', '2026-01-15 12:00:00+00', '2027-01-15 12:00:00+00', NULL, NULL, NULL, false, '{}', NULL),
    ('eecbc88c-d6e3-4239-b01c-8733c8de37c2', 'default', 'web-shop', 'failure_solution', 'backend', 'bugfix', 'python', NULL, 'The search index is stale after a deploy', NULL, 'Rebuild it in the release step', NULL, NULL, NULL, NULL, NULL, NULL, true, 'pytest', 'T-1', '1', NULL, '169af5b5830caa66eb07a8e5640bfe8ae09bdbd273d0cd1a06430429f5f39f94', '2026-01-15 12:00:00+00', 'embedded', 1, NULL, NULL, NULL, 'cef6ba14-29a2-5327-835b-d6b26d450194', '{45bae97e-9f15-58ab-923b-990a5474fbb2}', '2026-01-15 12:00:00+00', '2027-01-15 12:00:00+00', NULL, NULL, NULL, false, '{}', NULL);
INSERT INTO embedding_spaces (fingerprint, space, mean_terms, calibration, active, bound_at, probes) VALUES
    ('2671f1b56c4bd4f9', '{"dims": 32, "model": "hashing", "provider": "test", "revision": "e365cd9c617713a5", "max_tokens": 512, "fingerprint": "2671f1b56c4bd4f9", "query_prefix": "", "document_prefix": ""}', 80, '{"same": 1.0, "measured": false, "right_85": 0.57, "right_90": 0.52, "unrelated": 0.3}', true, '2026-11-27 09:35:37.726191+00', NULL);
INSERT INTO kb_partitions (workspace, partition, version, closed_at) VALUES
    ('default', 'global_kb', 1, NULL);
INSERT INTO kb_documents (id, workspace, partition, uri, name, link, source_id, mark, content_hash, status, error, latest, active_generation, attempts, not_before, lease_token, lease_until, added_at, indexed_at, text_hashes) VALUES
    ('69f81db8-b6fa-4929-bf9d-092ddb1eefbd', 'default', 'global_kb', 'timeouts.md', 'timeouts.md', NULL, NULL, NULL, '27eb93be4ed277c0a7bead560785a2038d5c373f4ea57ba6a85de05d87d46c0c', 'indexed', NULL, 1, 1, 0, NULL, NULL, NULL, '2026-11-27 09:35:38.786348+00', '2026-11-27 09:35:39.753718+00', '{"1": "f7ba715d212b3931d7c483adf637c8b033d36ca027fa7f7944f4f8c130335d41"}');
INSERT INTO kb_versions (document_id, generation, title, document_type, category, tags, text, text_hash, lines, pages, notes, space) VALUES
    ('69f81db8-b6fa-4929-bf9d-092ddb1eefbd', 1, 'Timeouts', 'markdown', NULL, '{}', '# Timeouts
The cart service waits 30 seconds for Postgres.
', 'f7ba715d212b3931d7c483adf637c8b033d36ca027fa7f7944f4f8c130335d41', 2, '{}', '{}', '2671f1b56c4bd4f9');
INSERT INTO kb_chunks (id, document_id, generation, ordinal, kind, text, text_hash, section, function, page, char_start, char_end, line_start, line_end, ts, until, severities, terms) VALUES
    ('681e1d97-2ef1-5a67-b7b7-88e03e1ebc48', '69f81db8-b6fa-4929-bf9d-092ddb1eefbd', 1, 0, 'chunk', '# Timeouts
The cart service waits 30 seconds for Postgres.', '\x0b61ede43bb9c44140ed20d93ac9c52a6f2404a410b8f4309e39cee46995baa5', 'Timeouts', NULL, NULL, 0, 58, 1, 2, NULL, NULL, '{}', '{195266743,524775024,2112783333,2168550802,2473281379,2624109064,3055489385}');
INSERT INTO kb_terms (workspace, partition, term, passages) VALUES
    ('default', 'global_kb', -1, 1),
    ('default', 'global_kb', 195266743, 1),
    ('default', 'global_kb', 524775024, 1),
    ('default', 'global_kb', 2112783333, 1),
    ('default', 'global_kb', 2168550802, 1),
    ('default', 'global_kb', 2473281379, 1),
    ('default', 'global_kb', 2624109064, 1),
    ('default', 'global_kb', 3055489385, 1);
INSERT INTO kb_vectors (space, text_hash, vector, made_at, workspace) VALUES
    ('2671f1b56c4bd4f9', '\x0b61ede43bb9c44140ed20d93ac9c52a6f2404a410b8f4309e39cee46995baa5', '\x0000473400000000000047b46aba00000000000047b40000000000000000000000000000000000000000473400000000000000000000000047b4000000007919', '2026-11-27 09:35:39.681206+00', 'default');
INSERT INTO lexicon (workspace, term, documents) VALUES
    ('default', -1, 3),
    ('default', 195266743, 1),
    ('default', 521872670, 1),
    ('default', 562580130, 1),
    ('default', 667262234, 1),
    ('default', 1147462314, 1),
    ('default', 1266693212, 1),
    ('default', 1948079053, 1),
    ('default', 2155046657, 1),
    ('default', 2302955073, 1),
    ('default', 2453354746, 1),
    ('default', 2680384918, 1),
    ('default', 3035683751, 1),
    ('default', 3257917790, 1),
    ('default', 3402113753, 1),
    ('default', 3713686397, 1),
    ('default', 4113142680, 1);
INSERT INTO outcomes (id, workspace, context_id, pattern_id, project_id, task_id, run_id, worked, recorded_at, recorded_by, low_trust) VALUES
    ('86d04a70-8332-4c43-b711-f542de375760', 'default', '870f2da0-cb6c-486b-a0f3-563706c8a688', '86f41581-1c3f-57ac-8256-f6f827e009b5', 'web-shop', 'T-5', '9', false, '2026-01-15 12:00:00+00', NULL, false);
INSERT INTO points (id, workspace, pattern_id, view, embedded_at, expires_at, counted, look_at) VALUES
    ('12bd914f-8d73-51be-aedd-127f9d0c1d04', 'default', '86f41581-1c3f-57ac-8256-f6f827e009b5', 'situation', '2026-01-15 12:00:00+00', '2027-01-15 12:00:00+00', true, NULL),
    ('45bae97e-9f15-58ab-923b-990a5474fbb2', 'default', 'cef6ba14-29a2-5327-835b-d6b26d450194', 'situation', '2026-01-15 12:00:00+00', '2027-01-15 12:00:00+00', true, NULL),
    ('5c363f23-9e83-5c6b-ab5b-b681c6be3cba', 'default', '85e87667-b322-576d-bb9b-0cb6a59ec24f', 'situation', '2026-01-15 12:00:00+00', '2027-01-15 12:00:00+00', true, NULL);
INSERT INTO vectors (point_id, space, vector) VALUES
    ('12bd914f-8d73-51be-aedd-127f9d0c1d04', '2671f1b56c4bd4f9', '\x0fb50fb5000000000fb50f3500000f3500000000000000000fb57a1a000000000000000000000fb500000f35000000000000000000000f350000000000000f35'),
    ('45bae97e-9f15-58ab-923b-990a5474fbb2', '2671f1b56c4bd4f9', '\x000000000000000000000000000000000fb900000fb57a1a0fb5000000000000000000000fb50000000000000000000000000f3500000f350f35000000000000'),
    ('5c363f23-9e83-5c6b-ab5b-b681c6be3cba', '2671f1b56c4bd4f9', '\x000000000000d4340000000000000000d4b40000d4b4d43400000000d4b40000d434000000000000000000000000d4b4c8b400000000d434d43400000000d434');
