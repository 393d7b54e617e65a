-- Earlier versions would write pages without checksums, which this version takes for damage: they must refuse the database.
SELECT 1;
