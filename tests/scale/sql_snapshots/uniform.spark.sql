SELECT
  *
FROM (
  SELECT
    *
  FROM (
    SELECT
      1 AS `part`,
      `t11`.`cell`,
      `t11`.`block`,
      `t11`.`n`,
      `t11`.`outcome`,
      `t11`.`residual`,
      `t11`.`residual_sq`,
      CAST(NULL AS DOUBLE) AS `log_loss`,
      CAST(NULL AS DOUBLE) AS `spherical`,
      CAST(NULL AS DOUBLE) AS `infinite`,
      CAST(NULL AS DOUBLE) AS `least`,
      CAST(NULL AS STRING) AS `example`
    FROM (
      SELECT
        `t7`.`cell`,
        `t7`.`block`,
        COUNT(*) AS `n`,
        SUM(`t7`.`z`) AS `outcome`,
        SUM(`t7`.`r`) AS `residual`,
        SUM(`t7`.`r` * `t7`.`r`) AS `residual_sq`
      FROM (
        SELECT
          `t3`.`u`,
          `t3`.`z`,
          `t3`.`block`,
          IF(`t3`.`u` <= 0.5, IF(`t3`.`u` <= 0.25, 0, 1), IF(`t3`.`u` <= 0.75, 2, 3)) AS `cell`,
          `t3`.`u` - `t3`.`z` AS `r`
        FROM (
          SELECT
            `t0`.`p0` AS `u`,
            CAST(IF(`t0`.`y` = 0, 1, 0) AS DOUBLE) AS `z`,
            (
              SHIFTRIGHT(
                (
                  (
                    (
                      SHIFTRIGHT(
                        (
                          (
                            (
                              (
                                `t0`.`row id` & 1073741823
                              ) + (
                                SHIFTRIGHT((
                                  `t0`.`row id` & 1152921503533105152
                                ), 30)
                              )
                            ) & 1073741823
                          ) * 1640531527
                        ),
                        15
                      )
                    ) & 1073741823
                  ) * 1103515245
                ),
                15
              )
            ) & 1073741823 & 63 AS `block`
          FROM `logs`.`predictions` AS `t0`
        ) AS `t3`
      ) AS `t7`
      GROUP BY
        1,
        2
    ) AS `t11`
  ) AS `t14`
  UNION ALL
  SELECT
    *
  FROM (
    SELECT
      2 AS `part`,
      `t12`.`cell`,
      `t12`.`block`,
      `t12`.`n`,
      `t12`.`outcome`,
      `t12`.`residual`,
      `t12`.`residual_sq`,
      CAST(NULL AS DOUBLE) AS `log_loss`,
      CAST(NULL AS DOUBLE) AS `spherical`,
      CAST(NULL AS DOUBLE) AS `infinite`,
      CAST(NULL AS DOUBLE) AS `least`,
      CAST(NULL AS STRING) AS `example`
    FROM (
      SELECT
        `t8`.`cell`,
        `t8`.`block`,
        COUNT(*) AS `n`,
        SUM(`t8`.`z`) AS `outcome`,
        SUM(`t8`.`r`) AS `residual`,
        SUM(`t8`.`r` * `t8`.`r`) AS `residual_sq`
      FROM (
        SELECT
          `t4`.`u`,
          `t4`.`z`,
          `t4`.`block`,
          IF(`t4`.`u` <= 0.5, IF(`t4`.`u` <= 0.25, 0, 1), IF(`t4`.`u` <= 0.75, 2, 3)) AS `cell`,
          `t4`.`u` - `t4`.`z` AS `r`
        FROM (
          SELECT
            `t0`.`p1` AS `u`,
            CAST(IF(`t0`.`y` = 1, 1, 0) AS DOUBLE) AS `z`,
            (
              SHIFTRIGHT(
                (
                  (
                    (
                      SHIFTRIGHT(
                        (
                          (
                            (
                              (
                                `t0`.`row id` & 1073741823
                              ) + (
                                SHIFTRIGHT((
                                  `t0`.`row id` & 1152921503533105152
                                ), 30)
                              )
                            ) & 1073741823
                          ) * 1640531527
                        ),
                        15
                      )
                    ) & 1073741823
                  ) * 1103515245
                ),
                15
              )
            ) & 1073741823 & 63 AS `block`
          FROM `logs`.`predictions` AS `t0`
        ) AS `t4`
      ) AS `t8`
      GROUP BY
        1,
        2
    ) AS `t12`
  ) AS `t15`
) AS `t17`
UNION ALL
SELECT
  *
FROM (
  SELECT
    *
  FROM (
    SELECT
      3 AS `part`,
      `t13`.`cell`,
      `t13`.`block`,
      `t13`.`n`,
      `t13`.`outcome`,
      `t13`.`residual`,
      `t13`.`residual_sq`,
      CAST(NULL AS DOUBLE) AS `log_loss`,
      CAST(NULL AS DOUBLE) AS `spherical`,
      CAST(NULL AS DOUBLE) AS `infinite`,
      CAST(NULL AS DOUBLE) AS `least`,
      CAST(NULL AS STRING) AS `example`
    FROM (
      SELECT
        `t9`.`cell`,
        `t9`.`block`,
        COUNT(*) AS `n`,
        SUM(`t9`.`z`) AS `outcome`,
        SUM(`t9`.`r`) AS `residual`,
        SUM(`t9`.`r` * `t9`.`r`) AS `residual_sq`
      FROM (
        SELECT
          `t5`.`u`,
          `t5`.`z`,
          `t5`.`block`,
          IF(`t5`.`u` <= 0.5, IF(`t5`.`u` <= 0.25, 0, 1), IF(`t5`.`u` <= 0.75, 2, 3)) AS `cell`,
          `t5`.`u` - `t5`.`z` AS `r`
        FROM (
          SELECT
            `t0`.`p2` AS `u`,
            CAST(IF(`t0`.`y` = 2, 1, 0) AS DOUBLE) AS `z`,
            (
              SHIFTRIGHT(
                (
                  (
                    (
                      SHIFTRIGHT(
                        (
                          (
                            (
                              (
                                `t0`.`row id` & 1073741823
                              ) + (
                                SHIFTRIGHT((
                                  `t0`.`row id` & 1152921503533105152
                                ), 30)
                              )
                            ) & 1073741823
                          ) * 1640531527
                        ),
                        15
                      )
                    ) & 1073741823
                  ) * 1103515245
                ),
                15
              )
            ) & 1073741823 & 63 AS `block`
          FROM `logs`.`predictions` AS `t0`
        ) AS `t5`
      ) AS `t9`
      GROUP BY
        1,
        2
    ) AS `t13`
  ) AS `t16`
  UNION ALL
  SELECT
    *
  FROM (
    SELECT
      *
    FROM (
      SELECT
        -1 AS `part`,
        CAST(NULL AS BIGINT) AS `cell`,
        CAST(NULL AS BIGINT) AS `block`,
        CAST(NULL AS BIGINT) AS `n`,
        CAST(NULL AS DOUBLE) AS `outcome`,
        CAST(NULL AS DOUBLE) AS `residual`,
        CAST(NULL AS DOUBLE) AS `residual_sq`,
        CAST(NULL AS DOUBLE) AS `log_loss`,
        CAST(NULL AS DOUBLE) AS `spherical`,
        CAST(NULL AS DOUBLE) AS `infinite`,
        CAST(NULL AS DOUBLE) AS `least`,
        '{"truecal":1,"models":[["model","multiclass",3,"float64",true,[["classwise",{"name":"EqualWidth","options":{"n_bins":4}},4],["confidence",{"name":"EqualWidth","options":{"n_bins":4}},4],["confidence_l1",{"name":"EqualWidth","options":{"n_bins":4}},4]]]],"blocks":64,"weighted":false,"by":[]}' AS `example`
      FROM (
        SELECT
          *
        FROM `logs`.`predictions` AS `t0`
        LIMIT 1
      ) AS `t1`
    ) AS `t2`
    UNION ALL
    SELECT
      *
    FROM (
      SELECT
        0 AS `part`,
        `t19`.`cell`,
        `t19`.`block`,
        `t19`.`n`,
        `t19`.`outcome`,
        `t19`.`residual`,
        `t19`.`residual_sq`,
        `t19`.`log_loss`,
        `t19`.`spherical`,
        `t19`.`infinite`,
        `t19`.`least`,
        CAST(`t19`.`example` AS STRING) AS `example`
      FROM (
        SELECT
          `t18`.`cell`,
          `t18`.`block`,
          COUNT(*) AS `n`,
          SUM(`t18`.`z`) AS `outcome`,
          SUM(`t18`.`r`) AS `residual`,
          SUM(`t18`.`r` * `t18`.`r`) AS `residual_sq`,
          SUM(`t18`.`log_loss`) AS `log_loss`,
          SUM(`t18`.`spherical`) AS `spherical`,
          SUM(`t18`.`infinite`) AS `infinite`,
          MIN(`t18`.`least`) AS `least`,
          MIN(IF(`t18`.`fault` > 0, `t18`.`id`, CAST(NULL AS BIGINT))) AS `example`
        FROM (
          SELECT
            `t10`.`p0`,
            `t10`.`p1`,
            `t10`.`p2`,
            `t10`.`y`,
            `t10`.`id`,
            `t10`.`block`,
            `t10`.`highest`,
            `t10`.`least`,
            `t10`.`total`,
            `t10`.`u`,
            `t10`.`z`,
            `t10`.`fault`,
            `t10`.`own`,
            `t10`.`squares`,
            -(
              LN(IF(`t10`.`own` > 0, `t10`.`own`, 1.0))
            ) AS `log_loss`,
            1.0 - (
              `t10`.`own` / SQRT(IF(`t10`.`squares` > 0, `t10`.`squares`, 1.0))
            ) AS `spherical`,
            CAST(IF(NOT (
              `t10`.`own` > 0
            ), 1, 0) AS DOUBLE) AS `infinite`,
            IF(
              `t10`.`fault` > 0,
              -(
                `t10`.`fault`
              ),
              IF(`t10`.`u` <= 0.5, IF(`t10`.`u` <= 0.25, 0, 1), IF(`t10`.`u` <= 0.75, 2, 3))
            ) AS `cell`,
            `t10`.`u` - `t10`.`z` AS `r`
          FROM (
            SELECT
              `t6`.`p0`,
              `t6`.`p1`,
              `t6`.`p2`,
              `t6`.`y`,
              `t6`.`id`,
              `t6`.`block`,
              `t6`.`highest`,
              `t6`.`least`,
              `t6`.`total`,
              `t6`.`u`,
              CAST(IF(
                CASE
                  WHEN `t6`.`p0` = `t6`.`highest`
                  THEN 0
                  WHEN `t6`.`p1` = `t6`.`highest`
                  THEN 1
                  ELSE 2
                END = `t6`.`y`,
                1,
                0
              ) AS DOUBLE) AS `z`,
              CASE
                WHEN `t6`.`y` IS NULL
                THEN 1
                WHEN `t6`.`total` IS NULL OR ISNAN(`t6`.`total`)
                THEN 2
                WHEN NOT (
                  (
                    ABS(`t6`.`total`) <= 1e+300
                  )
                  AND (
                    `t6`.`least` >= -1.7763568394002505E-15
                  )
                  AND (
                    `t6`.`u` <= 1.0000000000000018
                  )
                )
                THEN 3
                WHEN NOT (
                  ABS(`t6`.`total` - 1.0) <= 0.001
                )
                THEN 4
                WHEN NOT (
                  (
                    `t6`.`y` >= 0
                  ) AND (
                    `t6`.`y` < 3
                  )
                )
                THEN 5
                ELSE 0
              END AS `fault`,
              CASE
                WHEN `t6`.`y` = 0
                THEN `t6`.`p0`
                WHEN `t6`.`y` = 1
                THEN `t6`.`p1`
                ELSE `t6`.`p2`
              END AS `own`,
              (
                `t6`.`p0` * `t6`.`p0`
              ) + (
                `t6`.`p1` * `t6`.`p1`
              ) + (
                `t6`.`p2` * `t6`.`p2`
              ) AS `squares`
            FROM (
              SELECT
                `t0`.`p0`,
                `t0`.`p1`,
                `t0`.`p2`,
                `t0`.`y`,
                `t0`.`row id` AS `id`,
                (
                  SHIFTRIGHT(
                    (
                      (
                        (
                          SHIFTRIGHT(
                            (
                              (
                                (
                                  (
                                    `t0`.`row id` & 1073741823
                                  ) + (
                                    SHIFTRIGHT((
                                      `t0`.`row id` & 1152921503533105152
                                    ), 30)
                                  )
                                ) & 1073741823
                              ) * 1640531527
                            ),
                            15
                          )
                        ) & 1073741823
                      ) * 1103515245
                    ),
                    15
                  )
                ) & 1073741823 & 63 AS `block`,
                GREATEST(`t0`.`p0`, `t0`.`p1`, `t0`.`p2`) AS `highest`,
                LEAST(`t0`.`p0`, `t0`.`p1`, `t0`.`p2`) AS `least`,
                `t0`.`p0` + `t0`.`p1` + `t0`.`p2` AS `total`,
                GREATEST(`t0`.`p0`, `t0`.`p1`, `t0`.`p2`) AS `u`
              FROM `logs`.`predictions` AS `t0`
            ) AS `t6`
          ) AS `t10`
        ) AS `t18`
        GROUP BY
          1,
          2
      ) AS `t19`
    ) AS `t20`
  ) AS `t21`
) AS `t22`;
