-- There are no users here: who may write the file may do all.
-- Written by: make sql

BEGIN;

COMMIT;
