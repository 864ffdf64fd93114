SELECT
  *
FROM (
  SELECT
    -1 AS "part",
    CAST(NULL AS BIGINT) AS "cell",
    CAST(NULL AS BIGINT) AS "block",
    CAST(NULL AS VARCHAR) AS "by_0",
    CAST(NULL AS BIGINT) AS "n",
    CAST(NULL AS DOUBLE) AS "outcome",
    CAST(NULL AS DOUBLE) AS "residual",
    CAST(NULL AS DOUBLE) AS "residual_sq",
    CAST(NULL AS DOUBLE) AS "weight",
    CAST(NULL AS DOUBLE) AS "weight_sq",
    CAST(NULL AS DOUBLE) AS "heaviest",
    CAST(NULL AS DOUBLE) AS "outcome_sq",
    CAST(NULL AS DOUBLE) AS "loss",
    CAST(NULL AS DOUBLE) AS "log_loss",
    CAST(NULL AS DOUBLE) AS "spherical",
    CAST(NULL AS DOUBLE) AS "infinite",
    CAST(NULL AS DOUBLE) AS "least",
    '{"truecal":1,"models":[["model","multiclass",3,"float64",true,[["confidence",{"name":"EqualWidth","options":{"n_bins":4}},4]]]],"blocks":64,"weighted":true,"by":["site"]}' AS "example"
  FROM (
    SELECT
      *
    FROM "logs"."predictions" AS "t0"
    LIMIT 1
  ) AS "t1"
) AS "t2"
UNION ALL
SELECT
  *
FROM (
  SELECT
    0 AS "part",
    "t6"."cell",
    "t6"."block",
    "t6"."by_0",
    "t6"."n",
    "t6"."outcome",
    "t6"."residual",
    "t6"."residual_sq",
    "t6"."weight",
    "t6"."weight_sq",
    "t6"."heaviest",
    "t6"."outcome_sq",
    "t6"."loss",
    "t6"."log_loss",
    "t6"."spherical",
    "t6"."infinite",
    "t6"."least",
    CAST("t6"."example" AS VARCHAR) AS "example"
  FROM (
    SELECT
      "t5"."by_0",
      "t5"."cell",
      "t5"."block",
      COUNT(*) AS "n",
      SUM("t5"."w" * "t5"."z") AS "outcome",
      SUM("t5"."w" * "t5"."r") AS "residual",
      SUM("t5"."w" * "t5"."r" * (
        "t5"."w" * "t5"."r"
      )) AS "residual_sq",
      SUM("t5"."w") AS "weight",
      SUM("t5"."w" * "t5"."w") AS "weight_sq",
      MAX("t5"."w") AS "heaviest",
      SUM("t5"."w" * "t5"."w" * "t5"."z") AS "outcome_sq",
      SUM("t5"."w" * "t5"."r" * "t5"."r") AS "loss",
      SUM("t5"."w" * "t5"."log_loss") AS "log_loss",
      SUM("t5"."w" * "t5"."spherical") AS "spherical",
      SUM(IFF("t5"."w" > 0, "t5"."infinite", 0.0)) AS "infinite",
      MIN(IFF("t5"."w" > 0, "t5"."least", 1.0)) AS "least",
      MIN(IFF("t5"."fault" > 0, "t5"."id", CAST(NULL AS BIGINT))) AS "example"
    FROM (
      SELECT
        "t4"."p0",
        "t4"."p1",
        "t4"."p2",
        "t4"."y",
        "t4"."id",
        "t4"."block",
        "t4"."w",
        "t4"."by_0",
        "t4"."highest",
        "t4"."least",
        "t4"."total",
        "t4"."u",
        "t4"."z",
        "t4"."fault",
        "t4"."own",
        "t4"."squares",
        -(
          LN(IFF("t4"."own" > 0, "t4"."own", 1.0))
        ) AS "log_loss",
        1.0 - (
          "t4"."own" / SQRT(IFF("t4"."squares" > 0, "t4"."squares", 1.0))
        ) AS "spherical",
        CAST(IFF(NOT (
          "t4"."own" > 0
        ), 1, 0) AS DOUBLE) AS "infinite",
        IFF(
          "t4"."fault" > 0,
          -(
            "t4"."fault"
          ),
          IFF("t4"."u" <= 0.5, IFF("t4"."u" <= 0.25, 0, 1), IFF("t4"."u" <= 0.75, 2, 3))
        ) AS "cell",
        "t4"."u" - "t4"."z" AS "r"
      FROM (
        SELECT
          "t3"."p0",
          "t3"."p1",
          "t3"."p2",
          "t3"."y",
          "t3"."id",
          "t3"."block",
          "t3"."w",
          "t3"."by_0",
          "t3"."highest",
          "t3"."least",
          "t3"."total",
          "t3"."u",
          CAST(IFF(
            CASE
              WHEN "t3"."p0" = "t3"."highest"
              THEN 0
              WHEN "t3"."p1" = "t3"."highest"
              THEN 1
              ELSE 2
            END = "t3"."y",
            1,
            0
          ) AS DOUBLE) AS "z",
          CASE
            WHEN "t3"."y" IS NULL
            THEN 1
            WHEN "t3"."total" IS NULL
            THEN 2
            WHEN NOT (
              (
                ABS("t3"."total") <= 1e+300
              )
              AND (
                "t3"."least" >= -1.7763568394002505E-15
              )
              AND (
                "t3"."u" <= 1.0000000000000018
              )
            )
            THEN 3
            WHEN NOT (
              ABS("t3"."total" - 1.0) <= 0.001
            )
            THEN 4
            WHEN NOT (
              (
                "t3"."y" >= 0
              ) AND (
                "t3"."y" < 3
              )
            )
            THEN 5
            WHEN (
              "t3"."w" IS NULL
            )
            OR NOT (
              (
                "t3"."w" >= 0
              ) AND (
                "t3"."w" <= 1e+150
              )
            )
            THEN 6
            WHEN "t3"."by_0" IS NULL
            THEN 8
            ELSE 0
          END AS "fault",
          CASE
            WHEN "t3"."y" = 0
            THEN "t3"."p0"
            WHEN "t3"."y" = 1
            THEN "t3"."p1"
            ELSE "t3"."p2"
          END AS "own",
          (
            "t3"."p0" * "t3"."p0"
          ) + (
            "t3"."p1" * "t3"."p1"
          ) + (
            "t3"."p2" * "t3"."p2"
          ) AS "squares"
        FROM (
          SELECT
            "t0"."p0",
            "t0"."p1",
            "t0"."p2",
            "t0"."y",
            "t0"."row id" AS "id",
            BITAND(
              BITAND(
                BITSHIFTRIGHT(
                  (
                    BITAND(
                      BITSHIFTRIGHT(
                        (
                          BITAND(
                            (
                              BITAND("t0"."row id", 1073741823)
                            ) + (
                              BITSHIFTRIGHT(BITAND("t0"."row id", 1152921503533105152), 30)
                            ),
                            1073741823
                          )
                        ) * 1640531527,
                        15
                      ),
                      1073741823
                    )
                  ) * 1103515245,
                  15
                ),
                1073741823
              ),
              63
            ) AS "block",
            "t0"."w",
            "t0"."site" AS "by_0",
            GREATEST("t0"."p0", "t0"."p1", "t0"."p2") AS "highest",
            LEAST("t0"."p0", "t0"."p1", "t0"."p2") AS "least",
            "t0"."p0" + "t0"."p1" + "t0"."p2" AS "total",
            GREATEST("t0"."p0", "t0"."p1", "t0"."p2") AS "u"
          FROM "logs"."predictions" AS "t0"
        ) AS "t3"
      ) AS "t4"
    ) AS "t5"
    GROUP BY
      1,
      2,
      3
  ) AS "t6"
) AS "t7";
