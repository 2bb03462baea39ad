# A released model: what stats and broom ask of one. Everything here follows from what was released.

# JSON has null for what is missing, and a text for infinity.
numbers <- function(values) {
  vapply(values, function(one) if (is.null(one)) NA_real_ else as.numeric(one), 0, USE.NAMES = FALSE)
}

as_model <- function(office, job, table) {
  if (is.null(table$tidy)) return(structure(list(id = job$id, kind = table$kind, text = table$summary), class = "dp_glm"))
  terms <- vapply(table$tidy$term, identity, "")
  covariance <- matrix(NA_real_, length(terms), length(terms), dimnames = list(terms, terms))
  if (!is.null(table$vcov)) {
    fitted <- vapply(table$vcov$names, identity, "")
    covariance[fitted, fitted] <- do.call(rbind, lapply(table$vcov$rows, numbers))
  }
  structure(
    list(
      id = job$id, office = office, kind = table$kind, text = table$summary, formula = table$formula, terms = terms,
      tidy = lapply(table$tidy[names(table$tidy) != "term"], numbers), vcov = covariance,
      glance = lapply(table$glance, function(column) if (is.null(column[[1]])) NA else column[[1]])
    ),
    class = "dp_glm"
  )
}

print.dp_glm <- function(x, ...) {
  cat(x$text, "\n", sep = "")
  invisible(x)
}

summary.dp_glm <- function(object, ...) {
  structure(list(text = object$text, coefficients = as.data.frame(tidy(object))), class = "summary.dp_glm")
}

print.summary.dp_glm <- print.dp_glm

coef.dp_glm <- function(object, ...) stats::setNames(object$tidy$estimate, object$terms)

vcov.dp_glm <- function(object, ...) object$vcov

nobs.dp_glm <- function(object, ...) {
  if (is.na(object$glance$nobs)) NA_integer_ else as.integer(object$glance$nobs)
}

formula.dp_glm <- function(x, ...) stats::as.formula(x$formula, env = parent.frame())

family.dp_glm <- function(object, ...) {
  known <- list(gaussian = stats::gaussian, binomial = stats::binomial, poisson = stats::poisson)
  made <- known[[object$glance$family]]
  if (is.null(made)) stop("R has no family ", object$glance$family, call. = FALSE)
  made()
}

# Intervals of the office: they account for the noise, and are not estimate and error times 1.96 throughout.
at_level <- function(object, level) {
  if (is.null(object$tidy$std_error)) stop("the budget has not paid for standard errors", call. = FALSE)
  table <- office_call(object$office, release_path(object$id, "/table"), query = list(level = level))
  lapply(table$tidy[c("conf_low", "conf_high")], numbers)
}

confint.dp_glm <- function(object, parm, level = 0.95, ...) {
  ends <- at_level(object, level)
  tails <- c((1 - level) / 2, 1 - (1 - level) / 2)
  names <- paste(format(100 * tails, trim = TRUE, digits = 3), "%")
  table <- matrix(c(ends$conf_low, ends$conf_high), ncol = 2, dimnames = list(object$terms, names))
  if (missing(parm)) table else table[parm, , drop = FALSE]
}

# Of rows that are sent to the office; intervals for the mean.
predict.dp_glm <- function(object, newdata, type = c("response", "link"), se.fit = FALSE,
                           interval = c("none", "confidence"), level = 0.95, ...) {
  type <- match.arg(type)
  interval <- match.arg(interval)
  columns <- lapply(newdata, function(column) as.list(if (is.factor(column)) as.character(column) else column))
  body <- list(newdata = columns, which = if (type == "link") "linear" else "mean")
  wanted <- se.fit || interval == "confidence"
  if (wanted) body$level <- level
  answer <- office_call(object$office, release_path(object$id, "/predict"), json_text(body))
  prefix <- if (type == "link") "linear" else "mean"
  if (!wanted) return(stats::setNames(numbers(answer$predicted), row.names(newdata)))
  # Errors and intervals belong to the bias-corrected coefficients, those of coef().
  fit <- numbers(answer[[prefix]])
  if (interval == "confidence") {
    fit <- cbind(
      fit = fit, lwr = numbers(answer[[paste0(prefix, "_ci_lower")]]),
      upr = numbers(answer[[paste0(prefix, "_ci_upper")]])
    )
  }
  if (se.fit) list(fit = fit, se.fit = numbers(answer[[paste0(prefix, "_se")]])) else fit
}

tidy.dp_glm <- function(x, conf.int = FALSE, conf.level = 0.95, exponentiate = FALSE, ...) {
  table <- data.frame(term = x$terms, estimate = x$tidy$estimate)
  if (!is.null(x$tidy$std_error)) {
    table$std.error <- x$tidy$std_error
    table$statistic <- x$tidy$statistic
    table$p.value <- x$tidy$p_value
    if (conf.int) {
      ends <- at_level(x, conf.level)
      table$conf.low <- ends$conf_low
      table$conf.high <- ends$conf_high
    }
  }
  if (exponentiate) {
    if (!(x$glance$link %in% c("logit", "log"))) stop("exponentiate needs a logit or log link", call. = FALSE)
    for (name in intersect(c("estimate", "conf.low", "conf.high"), names(table))) table[[name]] <- exp(table[[name]])
  }
  table
}

glance.dp_glm <- function(x, ...) {
  facts <- x$glance[c("family", "link", "eps", "delta", "certified", "df_model")]
  names(facts)[6] <- "df"
  data.frame(c(facts, list(nobs = nobs(x))))
}
