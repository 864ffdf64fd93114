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
          IFF(
            "t4"."u" <= 0.5,
            IFF(
              "t4"."u" <= 0.03125,
              IFF(
                "t4"."u" <= 0.00018310546875,
                IFF(
                  "t4"."u" <= 1.1444091796875e-05,
                  IFF(
                    "t4"."u" <= 2.86102294921875e-06,
                    IFF(
                      "t4"."u" <= CAST('1.430511474609375e-06' AS DOUBLE),
                      IFF("t4"."u" <= 9.5367431640625e-07, 0, 1),
                      IFF("t4"."u" <= 1.9073486328125e-06, 2, 3)
                    ),
                    IFF(
                      "t4"."u" <= 5.7220458984375e-06,
                      IFF("t4"."u" <= 3.814697265625e-06, 4, 5),
                      IFF("t4"."u" <= 7.62939453125e-06, 6, 7)
                    )
                  ),
                  IFF(
                    "t4"."u" <= 4.57763671875e-05,
                    IFF(
                      "t4"."u" <= 2.288818359375e-05,
                      IFF("t4"."u" <= 1.52587890625e-05, 8, 9),
                      IFF("t4"."u" <= 3.0517578125e-05, 10, 11)
                    ),
                    IFF(
                      "t4"."u" <= 9.1552734375e-05,
                      IFF("t4"."u" <= 6.103515625e-05, 12, 13),
                      IFF("t4"."u" <= 0.0001220703125, 14, 15)
                    )
                  )
                ),
                IFF(
                  "t4"."u" <= 0.0029296875,
                  IFF(
                    "t4"."u" <= 0.000732421875,
                    IFF(
                      "t4"."u" <= 0.0003662109375,
                      IFF("t4"."u" <= 0.000244140625, 16, 17),
                      IFF("t4"."u" <= 0.00048828125, 18, 19)
                    ),
                    IFF(
                      "t4"."u" <= 0.00146484375,
                      IFF("t4"."u" <= 0.0009765625, 20, 21),
                      IFF("t4"."u" <= 0.001953125, 22, 23)
                    )
                  ),
                  IFF(
                    "t4"."u" <= 0.01171875,
                    IFF(
                      "t4"."u" <= 0.005859375,
                      IFF("t4"."u" <= 0.00390625, 24, 25),
                      IFF("t4"."u" <= 0.0078125, 26, 27)
                    ),
                    IFF("t4"."u" <= 0.0234375, IFF("t4"."u" <= 0.015625, 28, 29), 30)
                  )
                )
              ),
              IFF(
                "t4"."u" <= 0.265625,
                IFF(
                  "t4"."u" <= 0.15625,
                  IFF(
                    "t4"."u" <= 0.09375,
                    IFF(
                      "t4"."u" <= 0.0625,
                      IFF("t4"."u" <= 0.046875, 31, 32),
                      IFF("t4"."u" <= 0.078125, 33, 34)
                    ),
                    IFF(
                      "t4"."u" <= 0.125,
                      IFF("t4"."u" <= 0.109375, 35, 36),
                      IFF("t4"."u" <= 0.140625, 37, 38)
                    )
                  ),
                  IFF(
                    "t4"."u" <= 0.21875,
                    IFF(
                      "t4"."u" <= 0.1875,
                      IFF("t4"."u" <= 0.171875, 39, 40),
                      IFF("t4"."u" <= 0.203125, 41, 42)
                    ),
                    IFF("t4"."u" <= 0.25, IFF("t4"."u" <= 0.234375, 43, 44), 45)
                  )
                ),
                IFF(
                  "t4"."u" <= 0.390625,
                  IFF(
                    "t4"."u" <= 0.328125,
                    IFF(
                      "t4"."u" <= 0.296875,
                      IFF("t4"."u" <= 0.28125, 46, 47),
                      IFF("t4"."u" <= 0.3125, 48, 49)
                    ),
                    IFF(
                      "t4"."u" <= 0.359375,
                      IFF("t4"."u" <= 0.34375, 50, 51),
                      IFF("t4"."u" <= 0.375, 52, 53)
                    )
                  ),
                  IFF(
                    "t4"."u" <= 0.453125,
                    IFF(
                      "t4"."u" <= 0.421875,
                      IFF("t4"."u" <= 0.40625, 54, 55),
                      IFF("t4"."u" <= 0.4375, 56, 57)
                    ),
                    IFF("t4"."u" <= 0.484375, IFF("t4"."u" <= 0.46875, 58, 59), 60)
                  )
                )
              )
            ),
            IFF(
              "t4"."u" <= 0.9765625,
              IFF(
                "t4"."u" <= 0.75,
                IFF(
                  "t4"."u" <= 0.625,
                  IFF(
                    "t4"."u" <= 0.5625,
                    IFF(
                      "t4"."u" <= 0.53125,
                      IFF("t4"."u" <= 0.515625, 61, 62),
                      IFF("t4"."u" <= 0.546875, 63, 64)
                    ),
                    IFF(
                      "t4"."u" <= 0.59375,
                      IFF("t4"."u" <= 0.578125, 65, 66),
                      IFF("t4"."u" <= 0.609375, 67, 68)
                    )
                  ),
                  IFF(
                    "t4"."u" <= 0.6875,
                    IFF(
                      "t4"."u" <= 0.65625,
                      IFF("t4"."u" <= 0.640625, 69, 70),
                      IFF("t4"."u" <= 0.671875, 71, 72)
                    ),
                    IFF(
                      "t4"."u" <= 0.71875,
                      IFF("t4"."u" <= 0.703125, 73, 74),
                      IFF("t4"."u" <= 0.734375, 75, 76)
                    )
                  )
                ),
                IFF(
                  "t4"."u" <= 0.875,
                  IFF(
                    "t4"."u" <= 0.8125,
                    IFF(
                      "t4"."u" <= 0.78125,
                      IFF("t4"."u" <= 0.765625, 77, 78),
                      IFF("t4"."u" <= 0.796875, 79, 80)
                    ),
                    IFF(
                      "t4"."u" <= 0.84375,
                      IFF("t4"."u" <= 0.828125, 81, 82),
                      IFF("t4"."u" <= 0.859375, 83, 84)
                    )
                  ),
                  IFF(
                    "t4"."u" <= 0.9375,
                    IFF(
                      "t4"."u" <= 0.90625,
                      IFF("t4"."u" <= 0.890625, 85, 86),
                      IFF("t4"."u" <= 0.921875, 87, 88)
                    ),
                    IFF("t4"."u" <= 0.96875, IFF("t4"."u" <= 0.953125, 89, 90), 91)
                  )
                )
              ),
              IFF(
                "t4"."u" <= 0.9998779296875,
                IFF(
                  "t4"."u" <= 0.99853515625,
                  IFF(
                    "t4"."u" <= 0.994140625,
                    IFF(
                      "t4"."u" <= 0.98828125,
                      IFF("t4"."u" <= 0.984375, 92, 93),
                      IFF("t4"."u" <= 0.9921875, 94, 95)
                    ),
                    IFF(
                      "t4"."u" <= 0.9970703125,
                      IFF("t4"."u" <= 0.99609375, 96, 97),
                      IFF("t4"."u" <= 0.998046875, 98, 99)
                    )
                  ),
                  IFF(
                    "t4"."u" <= 0.9996337890625,
                    IFF(
                      "t4"."u" <= 0.999267578125,
                      IFF("t4"."u" <= 0.9990234375, 100, 101),
                      IFF("t4"."u" <= 0.99951171875, 102, 103)
                    ),
                    IFF("t4"."u" <= 0.99981689453125, IFF("t4"."u" <= 0.999755859375, 104, 105), 106)
                  )
                ),
                IFF(
                  "t4"."u" <= CAST('0.9999923706054688' AS DOUBLE),
                  IFF(
                    "t4"."u" <= 0.999969482421875,
                    IFF(
                      "t4"."u" <= 0.99993896484375,
                      IFF("t4"."u" <= 0.999908447265625, 107, 108),
                      IFF("t4"."u" <= CAST('0.9999542236328125' AS DOUBLE), 109, 110)
                    ),
                    IFF(
                      "t4"."u" <= CAST('0.9999847412109375' AS DOUBLE),
                      IFF("t4"."u" <= CAST('0.9999771118164062' AS DOUBLE), 111, 112),
                      IFF("t4"."u" <= CAST('0.9999885559082031' AS DOUBLE), 113, 114)
                    )
                  ),
                  IFF(
                    "t4"."u" <= CAST('0.9999980926513672' AS DOUBLE),
                    IFF(
                      "t4"."u" <= CAST('0.9999961853027344' AS DOUBLE),
                      IFF("t4"."u" <= CAST('0.9999942779541016' AS DOUBLE), 115, 116),
                      IFF("t4"."u" <= CAST('0.9999971389770508' AS DOUBLE), 117, 118)
                    ),
                    IFF(
                      "t4"."u" <= CAST('0.9999990463256836' AS DOUBLE),
                      IFF("t4"."u" <= CAST('0.9999985694885254' AS DOUBLE), 119, 120),
                      121
                    )
                  )
                )
              )
            )
          )
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
