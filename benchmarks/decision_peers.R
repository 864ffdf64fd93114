# The expected values of rms, riskRegression and R itself, for benchmarks/decision_peers.py: Rscript decision_peers.R FOLDER
suppressMessages({library(rms); library(riskRegression)})
folder <- commandArgs(trailingOnly = TRUE)[1]
add <- function(tool, set, name, value) cat(sprintf("%s,%s,%s,%.17g\n", tool, set, name, value))
rms.v <- paste0("rms ", packageVersion("rms")); rr.v <- paste0("riskRegression ", packageVersion("riskRegression"))
r.v <- paste0("R ", getRversion())
for (file in list.files(folder, pattern = "[.]csv$", full.names = TRUE)) {
  set <- sub("[.]csv$", "", basename(file)); d <- read.csv(file); lp <- qlogis(d$p)
  v <- val.prob(d$p, d$y, pl = FALSE)
  for (name in c("Brier", "Slope")) add(rms.v, set, tolower(name), v[[name]])
  s <- Score(list(m = d$p), formula = y ~ 1, data = d, metrics = c("auc", "brier"), summary = "ipa", null.model = TRUE)
  add(rr.v, set, "c_statistic", s$AUC$score$AUC); add(rr.v, set, "c_statistic_se", s$AUC$score$se)
  b <- s$Brier$score[s$Brier$score$model == "m", ]
  add(rr.v, set, "brier", b$Brier); add(rr.v, set, "brier_low", b$lower); add(rr.v, set, "brier_high", b$upper)
  add(rr.v, set, "scaled_brier", b$IPA)
  fit <- glm(y ~ offset(lp), family = binomial, data = d, epsilon = 1e-14); ends <- confint.default(fit)
  add(r.v, set, "intercept", coef(fit)[1]); add(r.v, set, "intercept_low", ends[1]); add(r.v, set, "intercept_high", ends[2])
  fit <- glm(y ~ lp, family = binomial, data = d, epsilon = 1e-14); ends <- confint.default(fit)
  add(r.v, set, "slope", coef(fit)[2]); add(r.v, set, "slope_low", ends[2, 1]); add(r.v, set, "slope_high", ends[2, 2])
  off <- abs(predict(loess(y ~ p, data = d, control = loess.control(surface = "direct"))) - d$p)
  add(r.v, set, "ici", mean(off)); add(r.v, set, "e50", median(off))
  add(r.v, set, "e90", quantile(off, 0.9)); add(r.v, set, "emax", max(off))
  knots <- quantile(lp, c(0.05, 0.275, 0.5, 0.725, 0.95))  # rcspline.eval of few rows would have fewer
  spline <- glm(y ~ rcspline.eval(lp, knots, inclx = TRUE), family = binomial, data = d, epsilon = 1e-14)
  place <- sapply(quantile(lp, c(0.1, 0.5, 0.9), type = 1), function(q) which(lp == q)[1])
  curve <- predict(spline, se.fit = TRUE)
  for (i in 1:3) {
    add(rms.v, set, paste0("spline_", i), plogis(curve$fit[[place[i]]]))
    add(rms.v, set, paste0("spline_se_", i), curve$se.fit[[place[i]]])
  }
}
