SELECT
  *
FROM (
  SELECT
    *
  FROM (
    SELECT
      0 AS "part",
      "t13"."cell",
      "t13"."n"
    FROM (
      SELECT
        "t10"."cell",
        COUNT(*) AS "n"
      FROM (
        SELECT
          "t6"."u",
          "t6"."inside",
          "t6"."low",
          CASE
            WHEN "t6"."u" IS NULL
            THEN -1
            WHEN "t6"."u" <= 0.5
            THEN CASE WHEN "t6"."low" < 2048 THEN "t6"."low" ELSE 2047 END
            ELSE 4095 - CASE WHEN "t6"."low" < 2048 THEN "t6"."low" ELSE 2047 END
          END AS "cell"
        FROM (
          SELECT
            "t2"."u",
            "t2"."inside",
            CAST(FLOOR(SQRT(SQRT("t2"."inside" * 2.0)) * 2048.0) AS BIGINT) AS "low"
          FROM (
            SELECT
              "t0"."p0" AS "u",
              CASE
                WHEN (
                  "t0"."p0" > 0
                ) AND (
                  "t0"."p0" <= 0.5
                )
                THEN "t0"."p0"
                WHEN (
                  "t0"."p0" > 0.5
                ) AND (
                  "t0"."p0" < 1
                )
                THEN 1.0 - "t0"."p0"
                ELSE 0.0
              END AS "inside"
            FROM "logs"."predictions" AS "t0"
          ) AS "t2"
        ) AS "t6"
      ) AS "t10"
      GROUP BY
        1
    ) AS "t13"
  ) AS "t17"
  UNION ALL
  SELECT
    *
  FROM (
    SELECT
      1 AS "part",
      "t14"."cell",
      "t14"."n"
    FROM (
      SELECT
        "t11"."cell",
        COUNT(*) AS "n"
      FROM (
        SELECT
          "t7"."u",
          "t7"."inside",
          "t7"."low",
          CASE
            WHEN "t7"."u" IS NULL
            THEN -1
            WHEN "t7"."u" <= 0.5
            THEN CASE WHEN "t7"."low" < 2048 THEN "t7"."low" ELSE 2047 END
            ELSE 4095 - CASE WHEN "t7"."low" < 2048 THEN "t7"."low" ELSE 2047 END
          END AS "cell"
        FROM (
          SELECT
            "t3"."u",
            "t3"."inside",
            CAST(FLOOR(SQRT(SQRT("t3"."inside" * 2.0)) * 2048.0) AS BIGINT) AS "low"
          FROM (
            SELECT
              "t0"."p1" AS "u",
              CASE
                WHEN (
                  "t0"."p1" > 0
                ) AND (
                  "t0"."p1" <= 0.5
                )
                THEN "t0"."p1"
                WHEN (
                  "t0"."p1" > 0.5
                ) AND (
                  "t0"."p1" < 1
                )
                THEN 1.0 - "t0"."p1"
                ELSE 0.0
              END AS "inside"
            FROM "logs"."predictions" AS "t0"
          ) AS "t3"
        ) AS "t7"
      ) AS "t11"
      GROUP BY
        1
    ) AS "t14"
  ) AS "t18"
) AS "t20"
UNION ALL
SELECT
  *
FROM (
  SELECT
    *
  FROM (
    SELECT
      2 AS "part",
      "t15"."cell",
      "t15"."n"
    FROM (
      SELECT
        "t12"."cell",
        COUNT(*) AS "n"
      FROM (
        SELECT
          "t8"."u",
          "t8"."inside",
          "t8"."low",
          CASE
            WHEN "t8"."u" IS NULL
            THEN -1
            WHEN "t8"."u" <= 0.5
            THEN CASE WHEN "t8"."low" < 2048 THEN "t8"."low" ELSE 2047 END
            ELSE 4095 - CASE WHEN "t8"."low" < 2048 THEN "t8"."low" ELSE 2047 END
          END AS "cell"
        FROM (
          SELECT
            "t4"."u",
            "t4"."inside",
            CAST(FLOOR(SQRT(SQRT("t4"."inside" * 2.0)) * 2048.0) AS BIGINT) AS "low"
          FROM (
            SELECT
              "t0"."p2" AS "u",
              CASE
                WHEN (
                  "t0"."p2" > 0
                ) AND (
                  "t0"."p2" <= 0.5
                )
                THEN "t0"."p2"
                WHEN (
                  "t0"."p2" > 0.5
                ) AND (
                  "t0"."p2" < 1
                )
                THEN 1.0 - "t0"."p2"
                ELSE 0.0
              END AS "inside"
            FROM "logs"."predictions" AS "t0"
          ) AS "t4"
        ) AS "t8"
      ) AS "t12"
      GROUP BY
        1
    ) AS "t15"
  ) AS "t19"
  UNION ALL
  SELECT
    *
  FROM (
    SELECT
      3 AS "part",
      "t21"."cell",
      "t21"."n"
    FROM (
      SELECT
        "t16"."cell",
        COUNT(*) AS "n"
      FROM (
        SELECT
          "t9"."u",
          "t9"."inside",
          "t9"."low",
          CASE
            WHEN "t9"."u" IS NULL
            THEN -1
            WHEN "t9"."u" <= 0.5
            THEN CASE WHEN "t9"."low" < 2048 THEN "t9"."low" ELSE 2047 END
            ELSE 4095 - CASE WHEN "t9"."low" < 2048 THEN "t9"."low" ELSE 2047 END
          END AS "cell"
        FROM (
          SELECT
            "t5"."u",
            "t5"."inside",
            CAST(FLOOR(SQRT(SQRT("t5"."inside" * 2.0)) * 2048.0) AS BIGINT) AS "low"
          FROM (
            SELECT
              "t1"."u",
              CASE
                WHEN (
                  "t1"."u" > 0
                ) AND (
                  "t1"."u" <= 0.5
                )
                THEN "t1"."u"
                WHEN (
                  "t1"."u" > 0.5
                ) AND (
                  "t1"."u" < 1
                )
                THEN 1.0 - "t1"."u"
                ELSE 0.0
              END AS "inside"
            FROM (
              SELECT
                GREATEST("t0"."p0", "t0"."p1", "t0"."p2") AS "u"
              FROM "logs"."predictions" AS "t0"
            ) AS "t1"
          ) AS "t5"
        ) AS "t9"
      ) AS "t16"
      GROUP BY
        1
    ) AS "t21"
  ) AS "t22"
) AS "t23";
