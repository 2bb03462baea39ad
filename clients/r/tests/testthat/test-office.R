# Against an office that DPSTATS_TEST_URL and DPSTATS_TOKEN name; tests/office/test_r_client.py starts one.

address <- Sys.getenv("DPSTATS_TEST_URL")

test_that("addresses and tokens are checked before anything is sent", {
  expect_error(dp_connect("http://office.example.org", strrep("t", 43)), "https")
  expect_error(dp_connect("http://127.0.0.1.example.org", strrep("t", 43)), "https")
  expect_error(dp_connect("https://office.example.org", "short"), "token")
})

test_that("powers are written as the office reads them", {
  text <- dpstats:::formula_text(log(y) ~ I(x^2) + (a + b)^2 + C(g, Treatment("a^b")))
  expect_equal(text, "log(y) ~ I(x**2) + (a + b)**2 + C(g, Treatment(\"a^b\"))")
})

test_that("a plan is free, and refusals are errors of their kind", {
  skip_if(address == "")
  office <- dp_connect(address)
  expect_output(print(office), "dp_office")
  expect_false(any(grepl(Sys.getenv("DPSTATS_TOKEN"), capture.output(print(office), str(office)), fixed = TRUE)))
  expect_equal(dp_datasets(office)$name, "survey")
  plan <- dp_plan(office, y ~ x + g, "survey", eps = 0.5)
  expect_equal(plan$costs$eps, 0.5)
  expect_output(print(plan), "Private Generalized Linear Model")
  expect_equal(dp_plan(office, y ~ I(x^2) + g, "survey", eps = 0.5)$costs$eps, 0.5)
  expect_error(dp_plan(office, y ~ x + g, "servey", eps = 0.5), "did you mean", class = "ArgumentError")
  expect_error(dp_connect(address, strrep("t", 43)), "token", class = "Unauthorized")
})

test_that("a fit has what stats and broom ask of one", {
  skip_if(address == "")
  office <- dp_connect(address)
  fit <- dp_glm(office, y ~ x + g, "survey", eps = 2, family = gaussian(), inference = "model")
  expect_message(again <- dp_glm(office, y ~ x + g, "survey", eps = 2, family = gaussian(), inference = "model"), "paid")
  expect_equal(coef(again), coef(fit))
  expect_equal(fit$id, again$id)

  expect_named(coef(fit), c("Intercept", "g[T.b]", "x"))
  expect_equal(dimnames(vcov(fit)), list(names(coef(fit)), names(coef(fit))))
  expect_equal(sqrt(diag(vcov(fit))), setNames(tidy(fit)$std.error, names(coef(fit))), tolerance = 0.05)
  narrow <- confint(fit, level = 0.5)
  wide <- confint(fit, "x")
  expect_true(narrow["x", 1] > wide[1, 1] && narrow["x", 2] < wide[1, 2])
  expect_named(
    tidy(fit, conf.int = TRUE), c("term", "estimate", "std.error", "statistic", "p.value", "conf.low", "conf.high")
  )
  expect_true(glance(fit)$certified)
  expect_type(nobs(fit), "integer") # noisy: what was released of it
  expect_equal(family(fit)$family, "gaussian")
  expect_equal(formula(fit), y ~ x + g, ignore_attr = TRUE)
  expect_output(print(summary(fit)), "Private Generalized Linear Model")
  if (requireNamespace("broom", quietly = TRUE)) expect_equal(broom::tidy(fit), tidy(fit))

  rows <- data.frame(x = c(0.5, 1), g = factor(c("a", "b")))
  expect_length(predict(fit, rows), 2)
  expect_length(predict(fit, rows[1, ]), 1)
  foreseen <- predict(fit, rows, interval = "confidence", se.fit = TRUE)
  expect_true(all(foreseen$fit[, "lwr"] < foreseen$fit[, "fit"] & foreseen$fit[, "fit"] < foreseen$fit[, "upr"]))
  expect_equal(unname(foreseen$fit[, "fit"]), unname(c(coef(fit) %*% cbind(c(1, 0, 0.5), c(1, 1, 1)))), tolerance = 1e-6)

  expect_equal(coef(dp_release(office, fit$id)), coef(fit))
  expect_equal(dp_releases(office)$id, fit$id)
  expect_match(dp_releases(office)$formula, "~", fixed = TRUE)
})
