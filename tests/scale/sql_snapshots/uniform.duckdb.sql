SELECT
  *
FROM (
  SELECT
    *
  FROM (
    SELECT
      1 AS "part",
      "t11"."cell",
      "t11"."block",
      "t11"."n",
      "t11"."outcome",
      "t11"."residual",
      "t11"."residual_sq",
      CAST(NULL AS DOUBLE) AS "log_loss",
      CAST(NULL AS DOUBLE) AS "spherical",
      CAST(NULL AS DOUBLE) AS "infinite",
      CAST(NULL AS DOUBLE) AS "least",
      CAST(NULL AS TEXT) AS "example"
    FROM (
      SELECT
        "t8"."cell",
        "t8"."block",
        COUNT(*) AS "n",
        SUM("t8"."z") AS "outcome",
        SUM("t8"."r") AS "residual",
        SUM("t8"."r" * "t8"."r") AS "residual_sq"
      FROM (
        SELECT
          "t3"."u",
          "t3"."z",
          "t3"."block",
          CASE
            WHEN "t3"."u" <= 0.5
            THEN CASE
              WHEN "t3"."u" <= 0.03125
              THEN CASE
                WHEN "t3"."u" <= 0.00018310546875
                THEN CASE
                  WHEN "t3"."u" <= 1.1444091796875e-05
                  THEN CASE
                    WHEN "t3"."u" <= 2.86102294921875e-06
                    THEN CASE
                      WHEN "t3"."u" <= CAST('1.430511474609375e-06' AS DOUBLE)
                      THEN CASE WHEN "t3"."u" <= 9.5367431640625e-07 THEN 0 ELSE 1 END
                      ELSE CASE WHEN "t3"."u" <= 1.9073486328125e-06 THEN 2 ELSE 3 END
                    END
                    ELSE CASE
                      WHEN "t3"."u" <= 5.7220458984375e-06
                      THEN CASE WHEN "t3"."u" <= 3.814697265625e-06 THEN 4 ELSE 5 END
                      ELSE CASE WHEN "t3"."u" <= 7.62939453125e-06 THEN 6 ELSE 7 END
                    END
                  END
                  ELSE CASE
                    WHEN "t3"."u" <= 4.57763671875e-05
                    THEN CASE
                      WHEN "t3"."u" <= 2.288818359375e-05
                      THEN CASE WHEN "t3"."u" <= 1.52587890625e-05 THEN 8 ELSE 9 END
                      ELSE CASE WHEN "t3"."u" <= 3.0517578125e-05 THEN 10 ELSE 11 END
                    END
                    ELSE CASE
                      WHEN "t3"."u" <= 9.1552734375e-05
                      THEN CASE WHEN "t3"."u" <= 6.103515625e-05 THEN 12 ELSE 13 END
                      ELSE CASE WHEN "t3"."u" <= 0.0001220703125 THEN 14 ELSE 15 END
                    END
                  END
                END
                ELSE CASE
                  WHEN "t3"."u" <= 0.0029296875
                  THEN CASE
                    WHEN "t3"."u" <= 0.000732421875
                    THEN CASE
                      WHEN "t3"."u" <= 0.0003662109375
                      THEN CASE WHEN "t3"."u" <= 0.000244140625 THEN 16 ELSE 17 END
                      ELSE CASE WHEN "t3"."u" <= 0.00048828125 THEN 18 ELSE 19 END
                    END
                    ELSE CASE
                      WHEN "t3"."u" <= 0.00146484375
                      THEN CASE WHEN "t3"."u" <= 0.0009765625 THEN 20 ELSE 21 END
                      ELSE CASE WHEN "t3"."u" <= 0.001953125 THEN 22 ELSE 23 END
                    END
                  END
                  ELSE CASE
                    WHEN "t3"."u" <= 0.01171875
                    THEN CASE
                      WHEN "t3"."u" <= 0.005859375
                      THEN CASE WHEN "t3"."u" <= 0.00390625 THEN 24 ELSE 25 END
                      ELSE CASE WHEN "t3"."u" <= 0.0078125 THEN 26 ELSE 27 END
                    END
                    ELSE CASE
                      WHEN "t3"."u" <= 0.0234375
                      THEN CASE WHEN "t3"."u" <= 0.015625 THEN 28 ELSE 29 END
                      ELSE 30
                    END
                  END
                END
              END
              ELSE CASE
                WHEN "t3"."u" <= 0.265625
                THEN CASE
                  WHEN "t3"."u" <= 0.15625
                  THEN CASE
                    WHEN "t3"."u" <= 0.09375
                    THEN CASE
                      WHEN "t3"."u" <= 0.0625
                      THEN CASE WHEN "t3"."u" <= 0.046875 THEN 31 ELSE 32 END
                      ELSE CASE WHEN "t3"."u" <= 0.078125 THEN 33 ELSE 34 END
                    END
                    ELSE CASE
                      WHEN "t3"."u" <= 0.125
                      THEN CASE WHEN "t3"."u" <= 0.109375 THEN 35 ELSE 36 END
                      ELSE CASE WHEN "t3"."u" <= 0.140625 THEN 37 ELSE 38 END
                    END
                  END
                  ELSE CASE
                    WHEN "t3"."u" <= 0.21875
                    THEN CASE
                      WHEN "t3"."u" <= 0.1875
                      THEN CASE WHEN "t3"."u" <= 0.171875 THEN 39 ELSE 40 END
                      ELSE CASE WHEN "t3"."u" <= 0.203125 THEN 41 ELSE 42 END
                    END
                    ELSE CASE
                      WHEN "t3"."u" <= 0.25
                      THEN CASE WHEN "t3"."u" <= 0.234375 THEN 43 ELSE 44 END
                      ELSE 45
                    END
                  END
                END
                ELSE CASE
                  WHEN "t3"."u" <= 0.390625
                  THEN CASE
                    WHEN "t3"."u" <= 0.328125
                    THEN CASE
                      WHEN "t3"."u" <= 0.296875
                      THEN CASE WHEN "t3"."u" <= 0.28125 THEN 46 ELSE 47 END
                      ELSE CASE WHEN "t3"."u" <= 0.3125 THEN 48 ELSE 49 END
                    END
                    ELSE CASE
                      WHEN "t3"."u" <= 0.359375
                      THEN CASE WHEN "t3"."u" <= 0.34375 THEN 50 ELSE 51 END
                      ELSE CASE WHEN "t3"."u" <= 0.375 THEN 52 ELSE 53 END
                    END
                  END
                  ELSE CASE
                    WHEN "t3"."u" <= 0.453125
                    THEN CASE
                      WHEN "t3"."u" <= 0.421875
                      THEN CASE WHEN "t3"."u" <= 0.40625 THEN 54 ELSE 55 END
                      ELSE CASE WHEN "t3"."u" <= 0.4375 THEN 56 ELSE 57 END
                    END
                    ELSE CASE
                      WHEN "t3"."u" <= 0.484375
                      THEN CASE WHEN "t3"."u" <= 0.46875 THEN 58 ELSE 59 END
                      ELSE 60
                    END
                  END
                END
              END
            END
            ELSE CASE
              WHEN "t3"."u" <= 0.9765625
              THEN CASE
                WHEN "t3"."u" <= 0.75
                THEN CASE
                  WHEN "t3"."u" <= 0.625
                  THEN CASE
                    WHEN "t3"."u" <= 0.5625
                    THEN CASE
                      WHEN "t3"."u" <= 0.53125
                      THEN CASE WHEN "t3"."u" <= 0.515625 THEN 61 ELSE 62 END
                      ELSE CASE WHEN "t3"."u" <= 0.546875 THEN 63 ELSE 64 END
                    END
                    ELSE CASE
                      WHEN "t3"."u" <= 0.59375
                      THEN CASE WHEN "t3"."u" <= 0.578125 THEN 65 ELSE 66 END
                      ELSE CASE WHEN "t3"."u" <= 0.609375 THEN 67 ELSE 68 END
                    END
                  END
                  ELSE CASE
                    WHEN "t3"."u" <= 0.6875
                    THEN CASE
                      WHEN "t3"."u" <= 0.65625
                      THEN CASE WHEN "t3"."u" <= 0.640625 THEN 69 ELSE 70 END
                      ELSE CASE WHEN "t3"."u" <= 0.671875 THEN 71 ELSE 72 END
                    END
                    ELSE CASE
                      WHEN "t3"."u" <= 0.71875
                      THEN CASE WHEN "t3"."u" <= 0.703125 THEN 73 ELSE 74 END
                      ELSE CASE WHEN "t3"."u" <= 0.734375 THEN 75 ELSE 76 END
                    END
                  END
                END
                ELSE CASE
                  WHEN "t3"."u" <= 0.875
                  THEN CASE
                    WHEN "t3"."u" <= 0.8125
                    THEN CASE
                      WHEN "t3"."u" <= 0.78125
                      THEN CASE WHEN "t3"."u" <= 0.765625 THEN 77 ELSE 78 END
                      ELSE CASE WHEN "t3"."u" <= 0.796875 THEN 79 ELSE 80 END
                    END
                    ELSE CASE
                      WHEN "t3"."u" <= 0.84375
                      THEN CASE WHEN "t3"."u" <= 0.828125 THEN 81 ELSE 82 END
                      ELSE CASE WHEN "t3"."u" <= 0.859375 THEN 83 ELSE 84 END
                    END
                  END
                  ELSE CASE
                    WHEN "t3"."u" <= 0.9375
                    THEN CASE
                      WHEN "t3"."u" <= 0.90625
                      THEN CASE WHEN "t3"."u" <= 0.890625 THEN 85 ELSE 86 END
                      ELSE CASE WHEN "t3"."u" <= 0.921875 THEN 87 ELSE 88 END
                    END
                    ELSE CASE
                      WHEN "t3"."u" <= 0.96875
                      THEN CASE WHEN "t3"."u" <= 0.953125 THEN 89 ELSE 90 END
                      ELSE 91
                    END
                  END
                END
              END
              ELSE CASE
                WHEN "t3"."u" <= 0.9998779296875
                THEN CASE
                  WHEN "t3"."u" <= 0.99853515625
                  THEN CASE
                    WHEN "t3"."u" <= 0.994140625
                    THEN CASE
                      WHEN "t3"."u" <= 0.98828125
                      THEN CASE WHEN "t3"."u" <= 0.984375 THEN 92 ELSE 93 END
                      ELSE CASE WHEN "t3"."u" <= 0.9921875 THEN 94 ELSE 95 END
                    END
                    ELSE CASE
                      WHEN "t3"."u" <= 0.9970703125
                      THEN CASE WHEN "t3"."u" <= 0.99609375 THEN 96 ELSE 97 END
                      ELSE CASE WHEN "t3"."u" <= 0.998046875 THEN 98 ELSE 99 END
                    END
                  END
                  ELSE CASE
                    WHEN "t3"."u" <= 0.9996337890625
                    THEN CASE
                      WHEN "t3"."u" <= 0.999267578125
                      THEN CASE WHEN "t3"."u" <= 0.9990234375 THEN 100 ELSE 101 END
                      ELSE CASE WHEN "t3"."u" <= 0.99951171875 THEN 102 ELSE 103 END
                    END
                    ELSE CASE
                      WHEN "t3"."u" <= 0.99981689453125
                      THEN CASE WHEN "t3"."u" <= 0.999755859375 THEN 104 ELSE 105 END
                      ELSE 106
                    END
                  END
                END
                ELSE CASE
                  WHEN "t3"."u" <= CAST('0.9999923706054688' AS DOUBLE)
                  THEN CASE
                    WHEN "t3"."u" <= 0.999969482421875
                    THEN CASE
                      WHEN "t3"."u" <= 0.99993896484375
                      THEN CASE WHEN "t3"."u" <= 0.999908447265625 THEN 107 ELSE 108 END
                      ELSE CASE WHEN "t3"."u" <= CAST('0.9999542236328125' AS DOUBLE) THEN 109 ELSE 110 END
                    END
                    ELSE CASE
                      WHEN "t3"."u" <= CAST('0.9999847412109375' AS DOUBLE)
                      THEN CASE WHEN "t3"."u" <= CAST('0.9999771118164062' AS DOUBLE) THEN 111 ELSE 112 END
                      ELSE CASE WHEN "t3"."u" <= CAST('0.9999885559082031' AS DOUBLE) THEN 113 ELSE 114 END
                    END
                  END
                  ELSE CASE
                    WHEN "t3"."u" <= CAST('0.9999980926513672' AS DOUBLE)
                    THEN CASE
                      WHEN "t3"."u" <= CAST('0.9999961853027344' AS DOUBLE)
                      THEN CASE WHEN "t3"."u" <= CAST('0.9999942779541016' AS DOUBLE) THEN 115 ELSE 116 END
                      ELSE CASE WHEN "t3"."u" <= CAST('0.9999971389770508' AS DOUBLE) THEN 117 ELSE 118 END
                    END
                    ELSE CASE
                      WHEN "t3"."u" <= CAST('0.9999990463256836' AS DOUBLE)
                      THEN CASE WHEN "t3"."u" <= CAST('0.9999985694885254' AS DOUBLE) THEN 119 ELSE 120 END
                      ELSE 121
                    END
                  END
                END
              END
            END
          END AS "cell",
          "t3"."u" - "t3"."z" AS "r"
        FROM (
          SELECT
            "t0"."p0" AS "u",
            CAST(CASE WHEN "t0"."y" = 0 THEN 1 ELSE 0 END AS DOUBLE) AS "z",
            (
              (
                (
                  (
                    (
                      (
                        (
                          (
                            "t0"."row id" & 1073741823
                          ) + (
                            (
                              "t0"."row id" & 1152921503533105152
                            ) >> 30
                          )
                        ) & 1073741823
                      ) * 1640531527
                    ) >> 15
                  ) & 1073741823
                ) * 1103515245
              ) >> 15
            ) & 1073741823 & 63 AS "block"
          FROM "logs"."predictions" AS "t0"
        ) AS "t3"
      ) AS "t8"
      GROUP BY
        1,
        2
    ) AS "t11"
  ) AS "t14"
  UNION ALL
  SELECT
    *
  FROM (
    SELECT
      2 AS "part",
      "t12"."cell",
      "t12"."block",
      "t12"."n",
      "t12"."outcome",
      "t12"."residual",
      "t12"."residual_sq",
      CAST(NULL AS DOUBLE) AS "log_loss",
      CAST(NULL AS DOUBLE) AS "spherical",
      CAST(NULL AS DOUBLE) AS "infinite",
      CAST(NULL AS DOUBLE) AS "least",
      CAST(NULL AS TEXT) AS "example"
    FROM (
      SELECT
        "t9"."cell",
        "t9"."block",
        COUNT(*) AS "n",
        SUM("t9"."z") AS "outcome",
        SUM("t9"."r") AS "residual",
        SUM("t9"."r" * "t9"."r") AS "residual_sq"
      FROM (
        SELECT
          "t4"."u",
          "t4"."z",
          "t4"."block",
          CASE
            WHEN "t4"."u" <= 0.5
            THEN CASE
              WHEN "t4"."u" <= 0.03125
              THEN CASE
                WHEN "t4"."u" <= 0.00018310546875
                THEN CASE
                  WHEN "t4"."u" <= 1.1444091796875e-05
                  THEN CASE
                    WHEN "t4"."u" <= 2.86102294921875e-06
                    THEN CASE
                      WHEN "t4"."u" <= CAST('1.430511474609375e-06' AS DOUBLE)
                      THEN CASE WHEN "t4"."u" <= 9.5367431640625e-07 THEN 0 ELSE 1 END
                      ELSE CASE WHEN "t4"."u" <= 1.9073486328125e-06 THEN 2 ELSE 3 END
                    END
                    ELSE CASE
                      WHEN "t4"."u" <= 5.7220458984375e-06
                      THEN CASE WHEN "t4"."u" <= 3.814697265625e-06 THEN 4 ELSE 5 END
                      ELSE CASE WHEN "t4"."u" <= 7.62939453125e-06 THEN 6 ELSE 7 END
                    END
                  END
                  ELSE CASE
                    WHEN "t4"."u" <= 4.57763671875e-05
                    THEN CASE
                      WHEN "t4"."u" <= 2.288818359375e-05
                      THEN CASE WHEN "t4"."u" <= 1.52587890625e-05 THEN 8 ELSE 9 END
                      ELSE CASE WHEN "t4"."u" <= 3.0517578125e-05 THEN 10 ELSE 11 END
                    END
                    ELSE CASE
                      WHEN "t4"."u" <= 9.1552734375e-05
                      THEN CASE WHEN "t4"."u" <= 6.103515625e-05 THEN 12 ELSE 13 END
                      ELSE CASE WHEN "t4"."u" <= 0.0001220703125 THEN 14 ELSE 15 END
                    END
                  END
                END
                ELSE CASE
                  WHEN "t4"."u" <= 0.0029296875
                  THEN CASE
                    WHEN "t4"."u" <= 0.000732421875
                    THEN CASE
                      WHEN "t4"."u" <= 0.0003662109375
                      THEN CASE WHEN "t4"."u" <= 0.000244140625 THEN 16 ELSE 17 END
                      ELSE CASE WHEN "t4"."u" <= 0.00048828125 THEN 18 ELSE 19 END
                    END
                    ELSE CASE
                      WHEN "t4"."u" <= 0.00146484375
                      THEN CASE WHEN "t4"."u" <= 0.0009765625 THEN 20 ELSE 21 END
                      ELSE CASE WHEN "t4"."u" <= 0.001953125 THEN 22 ELSE 23 END
                    END
                  END
                  ELSE CASE
                    WHEN "t4"."u" <= 0.01171875
                    THEN CASE
                      WHEN "t4"."u" <= 0.005859375
                      THEN CASE WHEN "t4"."u" <= 0.00390625 THEN 24 ELSE 25 END
                      ELSE CASE WHEN "t4"."u" <= 0.0078125 THEN 26 ELSE 27 END
                    END
                    ELSE CASE
                      WHEN "t4"."u" <= 0.0234375
                      THEN CASE WHEN "t4"."u" <= 0.015625 THEN 28 ELSE 29 END
                      ELSE 30
                    END
                  END
                END
              END
              ELSE CASE
                WHEN "t4"."u" <= 0.265625
                THEN CASE
                  WHEN "t4"."u" <= 0.15625
                  THEN CASE
                    WHEN "t4"."u" <= 0.09375
                    THEN CASE
                      WHEN "t4"."u" <= 0.0625
                      THEN CASE WHEN "t4"."u" <= 0.046875 THEN 31 ELSE 32 END
                      ELSE CASE WHEN "t4"."u" <= 0.078125 THEN 33 ELSE 34 END
                    END
                    ELSE CASE
                      WHEN "t4"."u" <= 0.125
                      THEN CASE WHEN "t4"."u" <= 0.109375 THEN 35 ELSE 36 END
                      ELSE CASE WHEN "t4"."u" <= 0.140625 THEN 37 ELSE 38 END
                    END
                  END
                  ELSE CASE
                    WHEN "t4"."u" <= 0.21875
                    THEN CASE
                      WHEN "t4"."u" <= 0.1875
                      THEN CASE WHEN "t4"."u" <= 0.171875 THEN 39 ELSE 40 END
                      ELSE CASE WHEN "t4"."u" <= 0.203125 THEN 41 ELSE 42 END
                    END
                    ELSE CASE
                      WHEN "t4"."u" <= 0.25
                      THEN CASE WHEN "t4"."u" <= 0.234375 THEN 43 ELSE 44 END
                      ELSE 45
                    END
                  END
                END
                ELSE CASE
                  WHEN "t4"."u" <= 0.390625
                  THEN CASE
                    WHEN "t4"."u" <= 0.328125
                    THEN CASE
                      WHEN "t4"."u" <= 0.296875
                      THEN CASE WHEN "t4"."u" <= 0.28125 THEN 46 ELSE 47 END
                      ELSE CASE WHEN "t4"."u" <= 0.3125 THEN 48 ELSE 49 END
                    END
                    ELSE CASE
                      WHEN "t4"."u" <= 0.359375
                      THEN CASE WHEN "t4"."u" <= 0.34375 THEN 50 ELSE 51 END
                      ELSE CASE WHEN "t4"."u" <= 0.375 THEN 52 ELSE 53 END
                    END
                  END
                  ELSE CASE
                    WHEN "t4"."u" <= 0.453125
                    THEN CASE
                      WHEN "t4"."u" <= 0.421875
                      THEN CASE WHEN "t4"."u" <= 0.40625 THEN 54 ELSE 55 END
                      ELSE CASE WHEN "t4"."u" <= 0.4375 THEN 56 ELSE 57 END
                    END
                    ELSE CASE
                      WHEN "t4"."u" <= 0.484375
                      THEN CASE WHEN "t4"."u" <= 0.46875 THEN 58 ELSE 59 END
                      ELSE 60
                    END
                  END
                END
              END
            END
            ELSE CASE
              WHEN "t4"."u" <= 0.9765625
              THEN CASE
                WHEN "t4"."u" <= 0.75
                THEN CASE
                  WHEN "t4"."u" <= 0.625
                  THEN CASE
                    WHEN "t4"."u" <= 0.5625
                    THEN CASE
                      WHEN "t4"."u" <= 0.53125
                      THEN CASE WHEN "t4"."u" <= 0.515625 THEN 61 ELSE 62 END
                      ELSE CASE WHEN "t4"."u" <= 0.546875 THEN 63 ELSE 64 END
                    END
                    ELSE CASE
                      WHEN "t4"."u" <= 0.59375
                      THEN CASE WHEN "t4"."u" <= 0.578125 THEN 65 ELSE 66 END
                      ELSE CASE WHEN "t4"."u" <= 0.609375 THEN 67 ELSE 68 END
                    END
                  END
                  ELSE CASE
                    WHEN "t4"."u" <= 0.6875
                    THEN CASE
                      WHEN "t4"."u" <= 0.65625
                      THEN CASE WHEN "t4"."u" <= 0.640625 THEN 69 ELSE 70 END
                      ELSE CASE WHEN "t4"."u" <= 0.671875 THEN 71 ELSE 72 END
                    END
                    ELSE CASE
                      WHEN "t4"."u" <= 0.71875
                      THEN CASE WHEN "t4"."u" <= 0.703125 THEN 73 ELSE 74 END
                      ELSE CASE WHEN "t4"."u" <= 0.734375 THEN 75 ELSE 76 END
                    END
                  END
                END
                ELSE CASE
                  WHEN "t4"."u" <= 0.875
                  THEN CASE
                    WHEN "t4"."u" <= 0.8125
                    THEN CASE
                      WHEN "t4"."u" <= 0.78125
                      THEN CASE WHEN "t4"."u" <= 0.765625 THEN 77 ELSE 78 END
                      ELSE CASE WHEN "t4"."u" <= 0.796875 THEN 79 ELSE 80 END
                    END
                    ELSE CASE
                      WHEN "t4"."u" <= 0.84375
                      THEN CASE WHEN "t4"."u" <= 0.828125 THEN 81 ELSE 82 END
                      ELSE CASE WHEN "t4"."u" <= 0.859375 THEN 83 ELSE 84 END
                    END
                  END
                  ELSE CASE
                    WHEN "t4"."u" <= 0.9375
                    THEN CASE
                      WHEN "t4"."u" <= 0.90625
                      THEN CASE WHEN "t4"."u" <= 0.890625 THEN 85 ELSE 86 END
                      ELSE CASE WHEN "t4"."u" <= 0.921875 THEN 87 ELSE 88 END
                    END
                    ELSE CASE
                      WHEN "t4"."u" <= 0.96875
                      THEN CASE WHEN "t4"."u" <= 0.953125 THEN 89 ELSE 90 END
                      ELSE 91
                    END
                  END
                END
              END
              ELSE CASE
                WHEN "t4"."u" <= 0.9998779296875
                THEN CASE
                  WHEN "t4"."u" <= 0.99853515625
                  THEN CASE
                    WHEN "t4"."u" <= 0.994140625
                    THEN CASE
                      WHEN "t4"."u" <= 0.98828125
                      THEN CASE WHEN "t4"."u" <= 0.984375 THEN 92 ELSE 93 END
                      ELSE CASE WHEN "t4"."u" <= 0.9921875 THEN 94 ELSE 95 END
                    END
                    ELSE CASE
                      WHEN "t4"."u" <= 0.9970703125
                      THEN CASE WHEN "t4"."u" <= 0.99609375 THEN 96 ELSE 97 END
                      ELSE CASE WHEN "t4"."u" <= 0.998046875 THEN 98 ELSE 99 END
                    END
                  END
                  ELSE CASE
                    WHEN "t4"."u" <= 0.9996337890625
                    THEN CASE
                      WHEN "t4"."u" <= 0.999267578125
                      THEN CASE WHEN "t4"."u" <= 0.9990234375 THEN 100 ELSE 101 END
                      ELSE CASE WHEN "t4"."u" <= 0.99951171875 THEN 102 ELSE 103 END
                    END
                    ELSE CASE
                      WHEN "t4"."u" <= 0.99981689453125
                      THEN CASE WHEN "t4"."u" <= 0.999755859375 THEN 104 ELSE 105 END
                      ELSE 106
                    END
                  END
                END
                ELSE CASE
                  WHEN "t4"."u" <= CAST('0.9999923706054688' AS DOUBLE)
                  THEN CASE
                    WHEN "t4"."u" <= 0.999969482421875
                    THEN CASE
                      WHEN "t4"."u" <= 0.99993896484375
                      THEN CASE WHEN "t4"."u" <= 0.999908447265625 THEN 107 ELSE 108 END
                      ELSE CASE WHEN "t4"."u" <= CAST('0.9999542236328125' AS DOUBLE) THEN 109 ELSE 110 END
                    END
                    ELSE CASE
                      WHEN "t4"."u" <= CAST('0.9999847412109375' AS DOUBLE)
                      THEN CASE WHEN "t4"."u" <= CAST('0.9999771118164062' AS DOUBLE) THEN 111 ELSE 112 END
                      ELSE CASE WHEN "t4"."u" <= CAST('0.9999885559082031' AS DOUBLE) THEN 113 ELSE 114 END
                    END
                  END
                  ELSE CASE
                    WHEN "t4"."u" <= CAST('0.9999980926513672' AS DOUBLE)
                    THEN CASE
                      WHEN "t4"."u" <= CAST('0.9999961853027344' AS DOUBLE)
                      THEN CASE WHEN "t4"."u" <= CAST('0.9999942779541016' AS DOUBLE) THEN 115 ELSE 116 END
                      ELSE CASE WHEN "t4"."u" <= CAST('0.9999971389770508' AS DOUBLE) THEN 117 ELSE 118 END
                    END
                    ELSE CASE
                      WHEN "t4"."u" <= CAST('0.9999990463256836' AS DOUBLE)
                      THEN CASE WHEN "t4"."u" <= CAST('0.9999985694885254' AS DOUBLE) THEN 119 ELSE 120 END
                      ELSE 121
                    END
                  END
                END
              END
            END
          END AS "cell",
          "t4"."u" - "t4"."z" AS "r"
        FROM (
          SELECT
            "t0"."p1" AS "u",
            CAST(CASE WHEN "t0"."y" = 1 THEN 1 ELSE 0 END AS DOUBLE) AS "z",
            (
              (
                (
                  (
                    (
                      (
                        (
                          (
                            "t0"."row id" & 1073741823
                          ) + (
                            (
                              "t0"."row id" & 1152921503533105152
                            ) >> 30
                          )
                        ) & 1073741823
                      ) * 1640531527
                    ) >> 15
                  ) & 1073741823
                ) * 1103515245
              ) >> 15
            ) & 1073741823 & 63 AS "block"
          FROM "logs"."predictions" AS "t0"
        ) AS "t4"
      ) AS "t9"
      GROUP BY
        1,
        2
    ) AS "t12"
  ) AS "t15"
) AS "t17"
UNION ALL
SELECT
  *
FROM (
  SELECT
    *
  FROM (
    SELECT
      3 AS "part",
      "t13"."cell",
      "t13"."block",
      "t13"."n",
      "t13"."outcome",
      "t13"."residual",
      "t13"."residual_sq",
      CAST(NULL AS DOUBLE) AS "log_loss",
      CAST(NULL AS DOUBLE) AS "spherical",
      CAST(NULL AS DOUBLE) AS "infinite",
      CAST(NULL AS DOUBLE) AS "least",
      CAST(NULL AS TEXT) AS "example"
    FROM (
      SELECT
        "t10"."cell",
        "t10"."block",
        COUNT(*) AS "n",
        SUM("t10"."z") AS "outcome",
        SUM("t10"."r") AS "residual",
        SUM("t10"."r" * "t10"."r") AS "residual_sq"
      FROM (
        SELECT
          "t5"."u",
          "t5"."z",
          "t5"."block",
          CASE
            WHEN "t5"."u" <= 0.5
            THEN CASE
              WHEN "t5"."u" <= 0.03125
              THEN CASE
                WHEN "t5"."u" <= 0.00018310546875
                THEN CASE
                  WHEN "t5"."u" <= 1.1444091796875e-05
                  THEN CASE
                    WHEN "t5"."u" <= 2.86102294921875e-06
                    THEN CASE
                      WHEN "t5"."u" <= CAST('1.430511474609375e-06' AS DOUBLE)
                      THEN CASE WHEN "t5"."u" <= 9.5367431640625e-07 THEN 0 ELSE 1 END
                      ELSE CASE WHEN "t5"."u" <= 1.9073486328125e-06 THEN 2 ELSE 3 END
                    END
                    ELSE CASE
                      WHEN "t5"."u" <= 5.7220458984375e-06
                      THEN CASE WHEN "t5"."u" <= 3.814697265625e-06 THEN 4 ELSE 5 END
                      ELSE CASE WHEN "t5"."u" <= 7.62939453125e-06 THEN 6 ELSE 7 END
                    END
                  END
                  ELSE CASE
                    WHEN "t5"."u" <= 4.57763671875e-05
                    THEN CASE
                      WHEN "t5"."u" <= 2.288818359375e-05
                      THEN CASE WHEN "t5"."u" <= 1.52587890625e-05 THEN 8 ELSE 9 END
                      ELSE CASE WHEN "t5"."u" <= 3.0517578125e-05 THEN 10 ELSE 11 END
                    END
                    ELSE CASE
                      WHEN "t5"."u" <= 9.1552734375e-05
                      THEN CASE WHEN "t5"."u" <= 6.103515625e-05 THEN 12 ELSE 13 END
                      ELSE CASE WHEN "t5"."u" <= 0.0001220703125 THEN 14 ELSE 15 END
                    END
                  END
                END
                ELSE CASE
                  WHEN "t5"."u" <= 0.0029296875
                  THEN CASE
                    WHEN "t5"."u" <= 0.000732421875
                    THEN CASE
                      WHEN "t5"."u" <= 0.0003662109375
                      THEN CASE WHEN "t5"."u" <= 0.000244140625 THEN 16 ELSE 17 END
                      ELSE CASE WHEN "t5"."u" <= 0.00048828125 THEN 18 ELSE 19 END
                    END
                    ELSE CASE
                      WHEN "t5"."u" <= 0.00146484375
                      THEN CASE WHEN "t5"."u" <= 0.0009765625 THEN 20 ELSE 21 END
                      ELSE CASE WHEN "t5"."u" <= 0.001953125 THEN 22 ELSE 23 END
                    END
                  END
                  ELSE CASE
                    WHEN "t5"."u" <= 0.01171875
                    THEN CASE
                      WHEN "t5"."u" <= 0.005859375
                      THEN CASE WHEN "t5"."u" <= 0.00390625 THEN 24 ELSE 25 END
                      ELSE CASE WHEN "t5"."u" <= 0.0078125 THEN 26 ELSE 27 END
                    END
                    ELSE CASE
                      WHEN "t5"."u" <= 0.0234375
                      THEN CASE WHEN "t5"."u" <= 0.015625 THEN 28 ELSE 29 END
                      ELSE 30
                    END
                  END
                END
              END
              ELSE CASE
                WHEN "t5"."u" <= 0.265625
                THEN CASE
                  WHEN "t5"."u" <= 0.15625
                  THEN CASE
                    WHEN "t5"."u" <= 0.09375
                    THEN CASE
                      WHEN "t5"."u" <= 0.0625
                      THEN CASE WHEN "t5"."u" <= 0.046875 THEN 31 ELSE 32 END
                      ELSE CASE WHEN "t5"."u" <= 0.078125 THEN 33 ELSE 34 END
                    END
                    ELSE CASE
                      WHEN "t5"."u" <= 0.125
                      THEN CASE WHEN "t5"."u" <= 0.109375 THEN 35 ELSE 36 END
                      ELSE CASE WHEN "t5"."u" <= 0.140625 THEN 37 ELSE 38 END
                    END
                  END
                  ELSE CASE
                    WHEN "t5"."u" <= 0.21875
                    THEN CASE
                      WHEN "t5"."u" <= 0.1875
                      THEN CASE WHEN "t5"."u" <= 0.171875 THEN 39 ELSE 40 END
                      ELSE CASE WHEN "t5"."u" <= 0.203125 THEN 41 ELSE 42 END
                    END
                    ELSE CASE
                      WHEN "t5"."u" <= 0.25
                      THEN CASE WHEN "t5"."u" <= 0.234375 THEN 43 ELSE 44 END
                      ELSE 45
                    END
                  END
                END
                ELSE CASE
                  WHEN "t5"."u" <= 0.390625
                  THEN CASE
                    WHEN "t5"."u" <= 0.328125
                    THEN CASE
                      WHEN "t5"."u" <= 0.296875
                      THEN CASE WHEN "t5"."u" <= 0.28125 THEN 46 ELSE 47 END
                      ELSE CASE WHEN "t5"."u" <= 0.3125 THEN 48 ELSE 49 END
                    END
                    ELSE CASE
                      WHEN "t5"."u" <= 0.359375
                      THEN CASE WHEN "t5"."u" <= 0.34375 THEN 50 ELSE 51 END
                      ELSE CASE WHEN "t5"."u" <= 0.375 THEN 52 ELSE 53 END
                    END
                  END
                  ELSE CASE
                    WHEN "t5"."u" <= 0.453125
                    THEN CASE
                      WHEN "t5"."u" <= 0.421875
                      THEN CASE WHEN "t5"."u" <= 0.40625 THEN 54 ELSE 55 END
                      ELSE CASE WHEN "t5"."u" <= 0.4375 THEN 56 ELSE 57 END
                    END
                    ELSE CASE
                      WHEN "t5"."u" <= 0.484375
                      THEN CASE WHEN "t5"."u" <= 0.46875 THEN 58 ELSE 59 END
                      ELSE 60
                    END
                  END
                END
              END
            END
            ELSE CASE
              WHEN "t5"."u" <= 0.9765625
              THEN CASE
                WHEN "t5"."u" <= 0.75
                THEN CASE
                  WHEN "t5"."u" <= 0.625
                  THEN CASE
                    WHEN "t5"."u" <= 0.5625
                    THEN CASE
                      WHEN "t5"."u" <= 0.53125
                      THEN CASE WHEN "t5"."u" <= 0.515625 THEN 61 ELSE 62 END
                      ELSE CASE WHEN "t5"."u" <= 0.546875 THEN 63 ELSE 64 END
                    END
                    ELSE CASE
                      WHEN "t5"."u" <= 0.59375
                      THEN CASE WHEN "t5"."u" <= 0.578125 THEN 65 ELSE 66 END
                      ELSE CASE WHEN "t5"."u" <= 0.609375 THEN 67 ELSE 68 END
                    END
                  END
                  ELSE CASE
                    WHEN "t5"."u" <= 0.6875
                    THEN CASE
                      WHEN "t5"."u" <= 0.65625
                      THEN CASE WHEN "t5"."u" <= 0.640625 THEN 69 ELSE 70 END
                      ELSE CASE WHEN "t5"."u" <= 0.671875 THEN 71 ELSE 72 END
                    END
                    ELSE CASE
                      WHEN "t5"."u" <= 0.71875
                      THEN CASE WHEN "t5"."u" <= 0.703125 THEN 73 ELSE 74 END
                      ELSE CASE WHEN "t5"."u" <= 0.734375 THEN 75 ELSE 76 END
                    END
                  END
                END
                ELSE CASE
                  WHEN "t5"."u" <= 0.875
                  THEN CASE
                    WHEN "t5"."u" <= 0.8125
                    THEN CASE
                      WHEN "t5"."u" <= 0.78125
                      THEN CASE WHEN "t5"."u" <= 0.765625 THEN 77 ELSE 78 END
                      ELSE CASE WHEN "t5"."u" <= 0.796875 THEN 79 ELSE 80 END
                    END
                    ELSE CASE
                      WHEN "t5"."u" <= 0.84375
                      THEN CASE WHEN "t5"."u" <= 0.828125 THEN 81 ELSE 82 END
                      ELSE CASE WHEN "t5"."u" <= 0.859375 THEN 83 ELSE 84 END
                    END
                  END
                  ELSE CASE
                    WHEN "t5"."u" <= 0.9375
                    THEN CASE
                      WHEN "t5"."u" <= 0.90625
                      THEN CASE WHEN "t5"."u" <= 0.890625 THEN 85 ELSE 86 END
                      ELSE CASE WHEN "t5"."u" <= 0.921875 THEN 87 ELSE 88 END
                    END
                    ELSE CASE
                      WHEN "t5"."u" <= 0.96875
                      THEN CASE WHEN "t5"."u" <= 0.953125 THEN 89 ELSE 90 END
                      ELSE 91
                    END
                  END
                END
              END
              ELSE CASE
                WHEN "t5"."u" <= 0.9998779296875
                THEN CASE
                  WHEN "t5"."u" <= 0.99853515625
                  THEN CASE
                    WHEN "t5"."u" <= 0.994140625
                    THEN CASE
                      WHEN "t5"."u" <= 0.98828125
                      THEN CASE WHEN "t5"."u" <= 0.984375 THEN 92 ELSE 93 END
                      ELSE CASE WHEN "t5"."u" <= 0.9921875 THEN 94 ELSE 95 END
                    END
                    ELSE CASE
                      WHEN "t5"."u" <= 0.9970703125
                      THEN CASE WHEN "t5"."u" <= 0.99609375 THEN 96 ELSE 97 END
                      ELSE CASE WHEN "t5"."u" <= 0.998046875 THEN 98 ELSE 99 END
                    END
                  END
                  ELSE CASE
                    WHEN "t5"."u" <= 0.9996337890625
                    THEN CASE
                      WHEN "t5"."u" <= 0.999267578125
                      THEN CASE WHEN "t5"."u" <= 0.9990234375 THEN 100 ELSE 101 END
                      ELSE CASE WHEN "t5"."u" <= 0.99951171875 THEN 102 ELSE 103 END
                    END
                    ELSE CASE
                      WHEN "t5"."u" <= 0.99981689453125
                      THEN CASE WHEN "t5"."u" <= 0.999755859375 THEN 104 ELSE 105 END
                      ELSE 106
                    END
                  END
                END
                ELSE CASE
                  WHEN "t5"."u" <= CAST('0.9999923706054688' AS DOUBLE)
                  THEN CASE
                    WHEN "t5"."u" <= 0.999969482421875
                    THEN CASE
                      WHEN "t5"."u" <= 0.99993896484375
                      THEN CASE WHEN "t5"."u" <= 0.999908447265625 THEN 107 ELSE 108 END
                      ELSE CASE WHEN "t5"."u" <= CAST('0.9999542236328125' AS DOUBLE) THEN 109 ELSE 110 END
                    END
                    ELSE CASE
                      WHEN "t5"."u" <= CAST('0.9999847412109375' AS DOUBLE)
                      THEN CASE WHEN "t5"."u" <= CAST('0.9999771118164062' AS DOUBLE) THEN 111 ELSE 112 END
                      ELSE CASE WHEN "t5"."u" <= CAST('0.9999885559082031' AS DOUBLE) THEN 113 ELSE 114 END
                    END
                  END
                  ELSE CASE
                    WHEN "t5"."u" <= CAST('0.9999980926513672' AS DOUBLE)
                    THEN CASE
                      WHEN "t5"."u" <= CAST('0.9999961853027344' AS DOUBLE)
                      THEN CASE WHEN "t5"."u" <= CAST('0.9999942779541016' AS DOUBLE) THEN 115 ELSE 116 END
                      ELSE CASE WHEN "t5"."u" <= CAST('0.9999971389770508' AS DOUBLE) THEN 117 ELSE 118 END
                    END
                    ELSE CASE
                      WHEN "t5"."u" <= CAST('0.9999990463256836' AS DOUBLE)
                      THEN CASE WHEN "t5"."u" <= CAST('0.9999985694885254' AS DOUBLE) THEN 119 ELSE 120 END
                      ELSE 121
                    END
                  END
                END
              END
            END
          END AS "cell",
          "t5"."u" - "t5"."z" AS "r"
        FROM (
          SELECT
            "t0"."p2" AS "u",
            CAST(CASE WHEN "t0"."y" = 2 THEN 1 ELSE 0 END AS DOUBLE) AS "z",
            (
              (
                (
                  (
                    (
                      (
                        (
                          (
                            "t0"."row id" & 1073741823
                          ) + (
                            (
                              "t0"."row id" & 1152921503533105152
                            ) >> 30
                          )
                        ) & 1073741823
                      ) * 1640531527
                    ) >> 15
                  ) & 1073741823
                ) * 1103515245
              ) >> 15
            ) & 1073741823 & 63 AS "block"
          FROM "logs"."predictions" AS "t0"
        ) AS "t5"
      ) AS "t10"
      GROUP BY
        1,
        2
    ) AS "t13"
  ) AS "t16"
  UNION ALL
  SELECT
    *
  FROM (
    SELECT
      *
    FROM (
      SELECT
        -1 AS "part",
        CAST(NULL AS BIGINT) AS "cell",
        CAST(NULL AS BIGINT) AS "block",
        CAST(NULL AS BIGINT) AS "n",
        CAST(NULL AS DOUBLE) AS "outcome",
        CAST(NULL AS DOUBLE) AS "residual",
        CAST(NULL AS DOUBLE) AS "residual_sq",
        CAST(NULL AS DOUBLE) AS "log_loss",
        CAST(NULL AS DOUBLE) AS "spherical",
        CAST(NULL AS DOUBLE) AS "infinite",
        CAST(NULL AS DOUBLE) AS "least",
        '{"truecal":1,"models":[["model","multiclass",3,"float64",true,[["classwise",{"name":"EqualWidth","options":{"n_bins":4}},4],["confidence",{"name":"EqualWidth","options":{"n_bins":4}},4],["confidence_l1",{"name":"EqualWidth","options":{"n_bins":4}},4]]]],"blocks":64,"weighted":false,"by":[]}' AS "example"
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
        "t19"."cell",
        "t19"."block",
        "t19"."n",
        "t19"."outcome",
        "t19"."residual",
        "t19"."residual_sq",
        "t19"."log_loss",
        "t19"."spherical",
        "t19"."infinite",
        "t19"."least",
        CAST("t19"."example" AS TEXT) AS "example"
      FROM (
        SELECT
          "t18"."cell",
          "t18"."block",
          COUNT(*) AS "n",
          SUM("t18"."z") AS "outcome",
          SUM("t18"."r") AS "residual",
          SUM("t18"."r" * "t18"."r") AS "residual_sq",
          SUM("t18"."log_loss") AS "log_loss",
          SUM("t18"."spherical") AS "spherical",
          SUM("t18"."infinite") AS "infinite",
          MIN("t18"."least") AS "least",
          MIN(CASE WHEN "t18"."fault" > 0 THEN "t18"."id" ELSE CAST(NULL AS BIGINT) END) AS "example"
        FROM (
          SELECT
            "t7"."p0",
            "t7"."p1",
            "t7"."p2",
            "t7"."y",
            "t7"."id",
            "t7"."block",
            "t7"."highest",
            "t7"."least",
            "t7"."total",
            "t7"."u",
            "t7"."z",
            "t7"."fault",
            "t7"."own",
            "t7"."squares",
            -(
              LN(CASE WHEN "t7"."own" > 0 THEN "t7"."own" ELSE 1.0 END)
            ) AS "log_loss",
            1.0 - (
              "t7"."own" / SQRT(CASE WHEN "t7"."squares" > 0 THEN "t7"."squares" ELSE 1.0 END)
            ) AS "spherical",
            CAST(CASE WHEN NOT (
              "t7"."own" > 0
            ) THEN 1 ELSE 0 END AS DOUBLE) AS "infinite",
            CASE
              WHEN "t7"."fault" > 0
              THEN -(
                "t7"."fault"
              )
              ELSE CASE
                WHEN "t7"."u" <= 0.5
                THEN CASE
                  WHEN "t7"."u" <= 0.03125
                  THEN CASE
                    WHEN "t7"."u" <= 0.00018310546875
                    THEN CASE
                      WHEN "t7"."u" <= 1.1444091796875e-05
                      THEN CASE
                        WHEN "t7"."u" <= 2.86102294921875e-06
                        THEN CASE
                          WHEN "t7"."u" <= CAST('1.430511474609375e-06' AS DOUBLE)
                          THEN CASE WHEN "t7"."u" <= 9.5367431640625e-07 THEN 0 ELSE 1 END
                          ELSE CASE WHEN "t7"."u" <= 1.9073486328125e-06 THEN 2 ELSE 3 END
                        END
                        ELSE CASE
                          WHEN "t7"."u" <= 5.7220458984375e-06
                          THEN CASE WHEN "t7"."u" <= 3.814697265625e-06 THEN 4 ELSE 5 END
                          ELSE CASE WHEN "t7"."u" <= 7.62939453125e-06 THEN 6 ELSE 7 END
                        END
                      END
                      ELSE CASE
                        WHEN "t7"."u" <= 4.57763671875e-05
                        THEN CASE
                          WHEN "t7"."u" <= 2.288818359375e-05
                          THEN CASE WHEN "t7"."u" <= 1.52587890625e-05 THEN 8 ELSE 9 END
                          ELSE CASE WHEN "t7"."u" <= 3.0517578125e-05 THEN 10 ELSE 11 END
                        END
                        ELSE CASE
                          WHEN "t7"."u" <= 9.1552734375e-05
                          THEN CASE WHEN "t7"."u" <= 6.103515625e-05 THEN 12 ELSE 13 END
                          ELSE CASE WHEN "t7"."u" <= 0.0001220703125 THEN 14 ELSE 15 END
                        END
                      END
                    END
                    ELSE CASE
                      WHEN "t7"."u" <= 0.0029296875
                      THEN CASE
                        WHEN "t7"."u" <= 0.000732421875
                        THEN CASE
                          WHEN "t7"."u" <= 0.0003662109375
                          THEN CASE WHEN "t7"."u" <= 0.000244140625 THEN 16 ELSE 17 END
                          ELSE CASE WHEN "t7"."u" <= 0.00048828125 THEN 18 ELSE 19 END
                        END
                        ELSE CASE
                          WHEN "t7"."u" <= 0.00146484375
                          THEN CASE WHEN "t7"."u" <= 0.0009765625 THEN 20 ELSE 21 END
                          ELSE CASE WHEN "t7"."u" <= 0.001953125 THEN 22 ELSE 23 END
                        END
                      END
                      ELSE CASE
                        WHEN "t7"."u" <= 0.01171875
                        THEN CASE
                          WHEN "t7"."u" <= 0.005859375
                          THEN CASE WHEN "t7"."u" <= 0.00390625 THEN 24 ELSE 25 END
                          ELSE CASE WHEN "t7"."u" <= 0.0078125 THEN 26 ELSE 27 END
                        END
                        ELSE CASE
                          WHEN "t7"."u" <= 0.0234375
                          THEN CASE WHEN "t7"."u" <= 0.015625 THEN 28 ELSE 29 END
                          ELSE 30
                        END
                      END
                    END
                  END
                  ELSE CASE
                    WHEN "t7"."u" <= 0.265625
                    THEN CASE
                      WHEN "t7"."u" <= 0.15625
                      THEN CASE
                        WHEN "t7"."u" <= 0.09375
                        THEN CASE
                          WHEN "t7"."u" <= 0.0625
                          THEN CASE WHEN "t7"."u" <= 0.046875 THEN 31 ELSE 32 END
                          ELSE CASE WHEN "t7"."u" <= 0.078125 THEN 33 ELSE 34 END
                        END
                        ELSE CASE
                          WHEN "t7"."u" <= 0.125
                          THEN CASE WHEN "t7"."u" <= 0.109375 THEN 35 ELSE 36 END
                          ELSE CASE WHEN "t7"."u" <= 0.140625 THEN 37 ELSE 38 END
                        END
                      END
                      ELSE CASE
                        WHEN "t7"."u" <= 0.21875
                        THEN CASE
                          WHEN "t7"."u" <= 0.1875
                          THEN CASE WHEN "t7"."u" <= 0.171875 THEN 39 ELSE 40 END
                          ELSE CASE WHEN "t7"."u" <= 0.203125 THEN 41 ELSE 42 END
                        END
                        ELSE CASE
                          WHEN "t7"."u" <= 0.25
                          THEN CASE WHEN "t7"."u" <= 0.234375 THEN 43 ELSE 44 END
                          ELSE 45
                        END
                      END
                    END
                    ELSE CASE
                      WHEN "t7"."u" <= 0.390625
                      THEN CASE
                        WHEN "t7"."u" <= 0.328125
                        THEN CASE
                          WHEN "t7"."u" <= 0.296875
                          THEN CASE WHEN "t7"."u" <= 0.28125 THEN 46 ELSE 47 END
                          ELSE CASE WHEN "t7"."u" <= 0.3125 THEN 48 ELSE 49 END
                        END
                        ELSE CASE
                          WHEN "t7"."u" <= 0.359375
                          THEN CASE WHEN "t7"."u" <= 0.34375 THEN 50 ELSE 51 END
                          ELSE CASE WHEN "t7"."u" <= 0.375 THEN 52 ELSE 53 END
                        END
                      END
                      ELSE CASE
                        WHEN "t7"."u" <= 0.453125
                        THEN CASE
                          WHEN "t7"."u" <= 0.421875
                          THEN CASE WHEN "t7"."u" <= 0.40625 THEN 54 ELSE 55 END
                          ELSE CASE WHEN "t7"."u" <= 0.4375 THEN 56 ELSE 57 END
                        END
                        ELSE CASE
                          WHEN "t7"."u" <= 0.484375
                          THEN CASE WHEN "t7"."u" <= 0.46875 THEN 58 ELSE 59 END
                          ELSE 60
                        END
                      END
                    END
                  END
                END
                ELSE CASE
                  WHEN "t7"."u" <= 0.9765625
                  THEN CASE
                    WHEN "t7"."u" <= 0.75
                    THEN CASE
                      WHEN "t7"."u" <= 0.625
                      THEN CASE
                        WHEN "t7"."u" <= 0.5625
                        THEN CASE
                          WHEN "t7"."u" <= 0.53125
                          THEN CASE WHEN "t7"."u" <= 0.515625 THEN 61 ELSE 62 END
                          ELSE CASE WHEN "t7"."u" <= 0.546875 THEN 63 ELSE 64 END
                        END
                        ELSE CASE
                          WHEN "t7"."u" <= 0.59375
                          THEN CASE WHEN "t7"."u" <= 0.578125 THEN 65 ELSE 66 END
                          ELSE CASE WHEN "t7"."u" <= 0.609375 THEN 67 ELSE 68 END
                        END
                      END
                      ELSE CASE
                        WHEN "t7"."u" <= 0.6875
                        THEN CASE
                          WHEN "t7"."u" <= 0.65625
                          THEN CASE WHEN "t7"."u" <= 0.640625 THEN 69 ELSE 70 END
                          ELSE CASE WHEN "t7"."u" <= 0.671875 THEN 71 ELSE 72 END
                        END
                        ELSE CASE
                          WHEN "t7"."u" <= 0.71875
                          THEN CASE WHEN "t7"."u" <= 0.703125 THEN 73 ELSE 74 END
                          ELSE CASE WHEN "t7"."u" <= 0.734375 THEN 75 ELSE 76 END
                        END
                      END
                    END
                    ELSE CASE
                      WHEN "t7"."u" <= 0.875
                      THEN CASE
                        WHEN "t7"."u" <= 0.8125
                        THEN CASE
                          WHEN "t7"."u" <= 0.78125
                          THEN CASE WHEN "t7"."u" <= 0.765625 THEN 77 ELSE 78 END
                          ELSE CASE WHEN "t7"."u" <= 0.796875 THEN 79 ELSE 80 END
                        END
                        ELSE CASE
                          WHEN "t7"."u" <= 0.84375
                          THEN CASE WHEN "t7"."u" <= 0.828125 THEN 81 ELSE 82 END
                          ELSE CASE WHEN "t7"."u" <= 0.859375 THEN 83 ELSE 84 END
                        END
                      END
                      ELSE CASE
                        WHEN "t7"."u" <= 0.9375
                        THEN CASE
                          WHEN "t7"."u" <= 0.90625
                          THEN CASE WHEN "t7"."u" <= 0.890625 THEN 85 ELSE 86 END
                          ELSE CASE WHEN "t7"."u" <= 0.921875 THEN 87 ELSE 88 END
                        END
                        ELSE CASE
                          WHEN "t7"."u" <= 0.96875
                          THEN CASE WHEN "t7"."u" <= 0.953125 THEN 89 ELSE 90 END
                          ELSE 91
                        END
                      END
                    END
                  END
                  ELSE CASE
                    WHEN "t7"."u" <= 0.9998779296875
                    THEN CASE
                      WHEN "t7"."u" <= 0.99853515625
                      THEN CASE
                        WHEN "t7"."u" <= 0.994140625
                        THEN CASE
                          WHEN "t7"."u" <= 0.98828125
                          THEN CASE WHEN "t7"."u" <= 0.984375 THEN 92 ELSE 93 END
                          ELSE CASE WHEN "t7"."u" <= 0.9921875 THEN 94 ELSE 95 END
                        END
                        ELSE CASE
                          WHEN "t7"."u" <= 0.9970703125
                          THEN CASE WHEN "t7"."u" <= 0.99609375 THEN 96 ELSE 97 END
                          ELSE CASE WHEN "t7"."u" <= 0.998046875 THEN 98 ELSE 99 END
                        END
                      END
                      ELSE CASE
                        WHEN "t7"."u" <= 0.9996337890625
                        THEN CASE
                          WHEN "t7"."u" <= 0.999267578125
                          THEN CASE WHEN "t7"."u" <= 0.9990234375 THEN 100 ELSE 101 END
                          ELSE CASE WHEN "t7"."u" <= 0.99951171875 THEN 102 ELSE 103 END
                        END
                        ELSE CASE
                          WHEN "t7"."u" <= 0.99981689453125
                          THEN CASE WHEN "t7"."u" <= 0.999755859375 THEN 104 ELSE 105 END
                          ELSE 106
                        END
                      END
                    END
                    ELSE CASE
                      WHEN "t7"."u" <= CAST('0.9999923706054688' AS DOUBLE)
                      THEN CASE
                        WHEN "t7"."u" <= 0.999969482421875
                        THEN CASE
                          WHEN "t7"."u" <= 0.99993896484375
                          THEN CASE WHEN "t7"."u" <= 0.999908447265625 THEN 107 ELSE 108 END
                          ELSE CASE WHEN "t7"."u" <= CAST('0.9999542236328125' AS DOUBLE) THEN 109 ELSE 110 END
                        END
                        ELSE CASE
                          WHEN "t7"."u" <= CAST('0.9999847412109375' AS DOUBLE)
                          THEN CASE WHEN "t7"."u" <= CAST('0.9999771118164062' AS DOUBLE) THEN 111 ELSE 112 END
                          ELSE CASE WHEN "t7"."u" <= CAST('0.9999885559082031' AS DOUBLE) THEN 113 ELSE 114 END
                        END
                      END
                      ELSE CASE
                        WHEN "t7"."u" <= CAST('0.9999980926513672' AS DOUBLE)
                        THEN CASE
                          WHEN "t7"."u" <= CAST('0.9999961853027344' AS DOUBLE)
                          THEN CASE WHEN "t7"."u" <= CAST('0.9999942779541016' AS DOUBLE) THEN 115 ELSE 116 END
                          ELSE CASE WHEN "t7"."u" <= CAST('0.9999971389770508' AS DOUBLE) THEN 117 ELSE 118 END
                        END
                        ELSE CASE
                          WHEN "t7"."u" <= CAST('0.9999990463256836' AS DOUBLE)
                          THEN CASE WHEN "t7"."u" <= CAST('0.9999985694885254' AS DOUBLE) THEN 119 ELSE 120 END
                          ELSE 121
                        END
                      END
                    END
                  END
                END
              END
            END AS "cell",
            "t7"."u" - "t7"."z" AS "r"
          FROM (
            SELECT
              "t6"."p0",
              "t6"."p1",
              "t6"."p2",
              "t6"."y",
              "t6"."id",
              "t6"."block",
              "t6"."highest",
              "t6"."least",
              "t6"."total",
              "t6"."u",
              CAST(CASE
                WHEN CASE
                  WHEN "t6"."p0" = "t6"."highest"
                  THEN 0
                  WHEN "t6"."p1" = "t6"."highest"
                  THEN 1
                  ELSE 2
                END = "t6"."y"
                THEN 1
                ELSE 0
              END AS DOUBLE) AS "z",
              CASE
                WHEN "t6"."y" IS NULL
                THEN 1
                WHEN "t6"."total" IS NULL
                THEN 2
                WHEN NOT (
                  (
                    ABS("t6"."total") <= 1e+300
                  )
                  AND (
                    "t6"."least" >= -1.7763568394002505E-15
                  )
                  AND (
                    "t6"."u" <= 1.0000000000000018
                  )
                )
                THEN 3
                WHEN NOT (
                  ABS("t6"."total" - 1.0) <= 0.001
                )
                THEN 4
                WHEN NOT (
                  (
                    "t6"."y" >= 0
                  ) AND (
                    "t6"."y" < 3
                  )
                )
                THEN 5
                ELSE 0
              END AS "fault",
              CASE
                WHEN "t6"."y" = 0
                THEN "t6"."p0"
                WHEN "t6"."y" = 1
                THEN "t6"."p1"
                ELSE "t6"."p2"
              END AS "own",
              (
                "t6"."p0" * "t6"."p0"
              ) + (
                "t6"."p1" * "t6"."p1"
              ) + (
                "t6"."p2" * "t6"."p2"
              ) AS "squares"
            FROM (
              SELECT
                "t0"."p0",
                "t0"."p1",
                "t0"."p2",
                "t0"."y",
                "t0"."row id" AS "id",
                (
                  (
                    (
                      (
                        (
                          (
                            (
                              (
                                "t0"."row id" & 1073741823
                              ) + (
                                (
                                  "t0"."row id" & 1152921503533105152
                                ) >> 30
                              )
                            ) & 1073741823
                          ) * 1640531527
                        ) >> 15
                      ) & 1073741823
                    ) * 1103515245
                  ) >> 15
                ) & 1073741823 & 63 AS "block",
                GREATEST("t0"."p0", "t0"."p1", "t0"."p2") AS "highest",
                LEAST("t0"."p0", "t0"."p1", "t0"."p2") AS "least",
                "t0"."p0" + "t0"."p1" + "t0"."p2" AS "total",
                GREATEST("t0"."p0", "t0"."p1", "t0"."p2") AS "u"
              FROM "logs"."predictions" AS "t0"
            ) AS "t6"
          ) AS "t7"
        ) AS "t18"
        GROUP BY
          1,
          2
      ) AS "t19"
    ) AS "t20"
  ) AS "t21"
) AS "t22";
