"""Hosting on Spark: workers as long-lived tasks of an ordinary job, checked before they start.

``dataframe`` carries rows between DataFrames and the workers.
"""
